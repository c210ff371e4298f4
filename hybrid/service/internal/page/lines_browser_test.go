package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// longText has a mistake in line 904 of 1002.
func longText() string {
	var b strings.Builder
	b.WriteString("domain: shop\ndescriptors:\n")
	for i := range 500 {
		unit := "minute"
		if i == 450 {
			unit = "mintue"
		}
		fmt.Fprintf(&b, "- {key: user, value: u%d,\n   rate_limit: {unit: %s, requests_per_unit: 1}}\n",
			i, unit)
	}
	return b.String()
}

// beside tells of the number of a line: how far it is from its line, in pixels, and whether it is
// in the window, in what scrolls, and chosen.
const beside = `(line => {
  const n = document.getElementById('line-' + line), text = document.getElementById('text');
  const style = getComputedStyle(text), at = n.getBoundingClientRect();
  const frame = document.querySelector('.editor').getBoundingClientRect();
  const off = at.bottom - text.getBoundingClientRect().top - parseFloat(style.paddingTop) -
    line * parseFloat(style.lineHeight);
  return {
    near: Math.abs(off) < 4,
    seen: at.top >= Math.max(0, frame.top) && at.bottom <= Math.min(innerHeight, frame.bottom) &&
      at.left >= frame.left && at.right <= frame.right,
    target: n.matches(':target'),
  };
})(%d)`

// TestBrowserLines: a mistake leads to its line, whose number stands beside it, with a script and
// without, on a phone and on a wide screen.
func TestBrowserLines(t *testing.T) {
	s := newService(t)
	b := s.newTab()
	b.logIn("ed")
	for _, script := range []bool{false, true} {
		call(b, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: !script})
		for _, width := range []int64{360, 1280} {
			b.do(chromedp.EmulateViewport(width, 700))
			b.open("/domains/shop/edit")
			b.do(chromedp.SetJavascriptAttribute(chromedp.CSS("#text"), "value", longText()))
			if script {
				b.do(chromedp.Focus(chromedp.CSS("#text")), chromedp.KeyEvent(" "+kb.Backspace))
			} else {
				b.follow(`button[value="check"]`)
			}
			b.says("Line 904, column 23")
			b.do(chromedp.Click(chromedp.CSS(`.mistakes a`)))
			got := value(b, chromedp.Evaluate[map[string]bool](fmt.Sprintf(beside, 904)))
			if !got["near"] || !got["seen"] || !got["target"] {
				t.Errorf("script %v, %d pixels: %v", script, width, got)
			}
		}
	}
	b.quiet()
}

// TestBrowserTyping: lines that are typed have numbers at once, without a script, and what is typed
// stays in view.
func TestBrowserTyping(t *testing.T) {
	s := newService(t)
	b := s.newTab()
	call(b, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true})
	b.logIn("ed")
	b.do(chromedp.EmulateViewport(1280, 700))
	b.open("/domains/shop/edit")
	if more := value(b, chromedp.Evaluate[float64](`(e => e.scrollWidth - e.clientWidth)(
		document.querySelector('.editor'))`)); more != 0 {
		t.Errorf("a text that has room is %v pixels wider than that", more)
	}
	b.do(chromedp.EmulateViewport(360, 700))
	b.do(chromedp.SetJavascriptAttribute(chromedp.CSS("#text"), "value", strings.Repeat("# x\n", 90)),
		chromedp.Focus(chromedp.CSS("#text")), chromedp.Evaluate[chromedp.Void](
			`document.getElementById('text').setSelectionRange(1e6, 1e6)`),
		chromedp.KeyEvent(strings.Repeat(kb.Enter, 9)+strings.Repeat("y", 80)))
	const seen = `(() => {
  const e = document.querySelector('.editor'), n = document.querySelector('.numbers');
  const line = parseFloat(getComputedStyle(e.querySelector('textarea')).lineHeight);
  return [e.scrollHeight - e.scrollTop - e.clientHeight < line, e.scrollLeft > 0,
    n.getBoundingClientRect().left - e.getBoundingClientRect().left < 2,
    Math.abs(n.clientHeight - 100 * line) < 2 * line];
})()`
	if got := value(b, chromedp.Evaluate[[]bool](seen)); fmt.Sprint(got) != "[true true true true]" {
		t.Errorf("the end, the right side, the numbers, all of them: %v", got)
	}
	b.do(chromedp.KeyEvent(kb.Home))
	if left := value(b, chromedp.Evaluate[float64](
		`document.querySelector('.editor').scrollLeft`)); left != 0 {
		t.Errorf("the beginning of the line is under the numbers: %v", left)
	}
	b.quiet()
}

// TestBrowserTabsStay: no tab moves when another one is chosen, nor does a time span.
func TestBrowserTabsStay(t *testing.T) {
	s := newService(t, watched(t))
	b := s.newTab()
	b.logIn("ann")
	const places = `[...document.querySelectorAll(%q)].map(e => e.getBoundingClientRect().left)`
	for selector, paths := range map[string][]string{
		".tabs a": {"/domains/shop", "/domains/shop/edit", "/domains/shop/history",
			"/domains/shop/explain", "/domains/shop/audit", "/domains/shop/delete"},
		".live-spans a": {"/live/shop", "/live/shop?span=24h"},
	} {
		first := ""
		for _, path := range paths {
			b.open(path)
			at := fmt.Sprint(value(b, chromedp.Evaluate[[]float64](fmt.Sprintf(places, selector))))
			if first == "" {
				first = at
			}
			if at != first || at == "[]" {
				t.Errorf("%s: %s are at %s, not at %s", path, selector, at, first)
			}
		}
	}
}
