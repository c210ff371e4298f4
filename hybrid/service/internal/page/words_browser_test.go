package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// typing puts a text into the editor, and the caret behind a part of it.
func (b *tab) typing(text, behind string) {
	b.t.Helper()
	at := strings.Index(text, behind) + len(behind)
	b.do(chromedp.Focus(chromedp.CSS("#text")), chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		`(t => { t.value = %q; t.setSelectionRange(%d, %d) })(document.getElementById('text'))`, text, at, at)))
}

// enter presses the key as a keyboard does: its character is that of the key press, which a script may
// prevent. KeyEvent sends it apart.
func (b *tab) enter() {
	b.t.Helper()
	for _, of := range []input.DispatchKeyEventType{"keyDown", "keyUp"} {
		p := input.DispatchKeyEventParams{Type: of, Key: "Enter", Code: "Enter", WindowsVirtualKeyCode: 13}
		if of == "keyDown" {
			p.Text = "\r"
		}
		call(b, input.DispatchKeyEvent, p)
	}
}

// offeredWords are what the list offers, with a mark at the chosen one; none if it is not shown.
const offeredWords = `[...document.querySelectorAll('#words:not([hidden]) li')].map(
  e => e.textContent + (e.getAttribute('aria-selected') === 'true' ? '*' : '')).join(' ')`

// TestBrowserWords: the editor completes keys and units where they fit, at the caret; a key goes to
// the next mistake, and another saves. None of it keeps the focus in the text.
func TestBrowserWords(t *testing.T) {
	s := newService(t)
	b := s.newTab()
	b.logIn("ed")
	b.do(chromedp.EmulateViewport(1280, 900))
	b.open("/domains/shop/edit")
	offers := func(text, behind, keys, want string) {
		t.Helper()
		b.typing(text, behind)
		b.do(chromedp.KeyEvent(keys))
		if got := value(b, chromedp.Evaluate[string](offeredWords)); got != want {
			t.Errorf("%q after %q: %q, want %q", keys, behind, got, want)
		}
	}
	text := func() string { return value(b, chromedp.Evaluate[string](`document.getElementById('text').value`)) }
	const begun = "domain: shop\ndescriptors:\n  - key: user\n    \n"
	offers(begun, "user\n    ", "r", "rate_limit*")
	offers(begun, "user\n    ", "sh", "shadow_mode* share_threshold")
	offers(begun, "user\n    ", "key", "")
	offers(begun, "key: user", "r", "")
	offers("", "", "d", "domain* descriptors")
	offers("domain: shop\n  # ", "# ", "d", "")
	offers("x:\n  rate_limit:\n    \n", "limit:\n    ", "b", "burst*")
	offers("x:\n  trial:\n    \n", "trial:\n    ", "p", "percent*")
	offers("- {key: a, rate_limit: {unit: day}, ", "day}, ", "tr", "trial* transform")
	offers("- {key: a, rate_limit: {unit: ", "unit: ", "m", "minute* month")
	b.do(chromedp.KeyEvent(kb.ArrowDown))
	b.enter()
	if got := text(); got != "- {key: a, rate_limit: {unit: month" {
		t.Errorf("taken was %q", got)
	}
	offers("- {key: a, rate_limit: {", "limit: {", "req", "requests_per_unit*")
	at := value(b, chromedp.Evaluate[[]bool](`(() => {
  const list = document.getElementById('words').getBoundingClientRect(), text = document.getElementById('text');
  const top = text.getBoundingClientRect().top, left = text.getBoundingClientRect().left;
  return [list.top > top, list.top < top + 40, list.left > left + 100, list.left < left + 300,
    text.getAttribute('aria-activedescendant') === 'word-0'];
})()`))
	for i, right := range at {
		if !right {
			t.Errorf("the list is not at the caret: %d of %v", i, at)
		}
	}
	b.axe("words")
	b.do(chromedp.KeyEvent(kb.Tab))
	if got := text(); got != "- {key: a, rate_limit: {requests_per_unit: " {
		t.Errorf("taken was %q", got)
	}
	// At the end of what is seen the list stands above the line.
	offers(strings.Repeat("# a comment\n", 18)+"descriptors:\n- ", "\n- ", "k", "key*")
	if above := value(b, chromedp.Evaluate[bool](`(() => {
  const list = document.getElementById('words').getBoundingClientRect(), frame = document.querySelector('.editor').getBoundingClientRect();
  return list.bottom < frame.bottom && list.top > frame.top;
})()`)); !above {
		t.Error("the list is cut off")
	}
	offers(begun, "user\n    ", "ra"+kb.Escape, "")
	b.do(chromedp.KeyEvent(kb.Tab))
	if value(b, chromedp.Evaluate[bool](`document.activeElement.id === 'text'`)) {
		t.Error("the tabulator does not leave the text")
	}
	b.typing(begun, "user\n    ")
	b.do(chromedp.KeyEvent(" ", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	if got := value(b, chromedp.Evaluate[string](offeredWords)); !strings.HasPrefix(got, "key* value rate_limit") {
		t.Errorf("with Ctrl and the space bar: %q", got)
	}

	wrong := strings.NewReplacer("unit: minute", "unit: mintue", "unit: day, requests_per_unit: 1000", "unit: dya, requests_per_unit: 1000").Replace(shop)
	b.typing(wrong, wrong)
	b.do(chromedp.KeyEvent(" " + kb.Backspace))
	b.says("2 mistakes")
	for _, line := range []string{"    rate_limit: {unit: ", "    rate_limit: {unit: ", "    rate_limit: {unit: "} {
		b.do(chromedp.KeyEvent(kb.F8))
		got := value(b, chromedp.Evaluate[string](`(t => t.value.slice(0, t.selectionStart).split('\n').pop())(document.getElementById('text'))`))
		if got != line {
			t.Errorf("the next mistake is behind %q", got)
		}
	}
	first := value(b, chromedp.Evaluate[int](`(t => t.value.slice(0, t.selectionStart).split('\n').length)(document.getElementById('text'))`))
	if first != 4 {
		t.Errorf("after the last mistake comes that of line %d", first)
	}

	b.typing(strings.Replace(shop, "60}", "61}", 1), "shop")
	b.do(chromedp.KeyEvent("s", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	if value(b, chromedp.Evaluate[string](`document.activeElement.id`)) != "reason" {
		t.Error("a save without a reason does not lead to the reason")
	}
	b.write("reason", "by keys")
	b.do(chromedp.KeyEvent("s", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.says("Version 2 is saved")
	b.quiet()
}
