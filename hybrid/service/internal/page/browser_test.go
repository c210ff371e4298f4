package page

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/hybrid/service/internal/live"
	"github.com/seed13b07268/ration/hybrid/service/internal/openidtest"
	"github.com/seed13b07268/ration/remote/redistest/pagetest"
)

// chromium returns the path of a browser.
func chromium(t *testing.T) string {
	t.Helper()
	return pagetest.Installed(t, "chromium", "chromium-browser", "google-chrome")
}

// A tab is one of a browser. It notes what scripts and the policy of the page complain of.
type tab struct {
	*service
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

// newTab starts a browser with a profile of its own.
func (s *service) newTab() *tab {
	s.t.Helper()
	profile, err := os.MkdirTemp("", "page")
	s.must(err)
	// Not t.TempDir: the browser's last process may still write to it, which is no failure of ours.
	s.t.Cleanup(func() { os.RemoveAll(profile) })
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(chromium(s.t)), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.UserDataDir(profile), chromedp.WSURLReadTimeout(time.Minute),
	}
	for _, flag := range []string{"disable-quic", "disable-background-networking",
		"disable-component-update", "disable-sync", "hide-scrollbars"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	s.t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	s.t.Cleanup(end)
	b := &tab{service: s, ctx: ctx}
	s.must(chromedp.Listen(ctx, b.listen))
	call(b, log.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	b.ctx, end = context.WithTimeout(ctx, 3*time.Minute)
	s.t.Cleanup(end)
	return b
}

func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		// A page that refuses has its status, which is no fault.
		if e.Entry.Source != log.EntrySourceNetwork {
			b.complaints = append(b.complaints, fmt.Sprint(e.Entry.Source, ": ", e.Entry.Text))
		}
	}
}

func (b *tab) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 {
		b.t.Errorf("the browser complains: %q", b.complaints)
	}
}

// call sends a command of the protocol.
func call[P, R any](b *tab, c cdp.Command[P, R], params P) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, c, params)
	b.must(err)
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatalf("%v: %s", err, b.text())
	}
}

// value is what an action returns.
func value[T any](b *tab, a chromedp.Action[T]) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, a)
	if err != nil {
		b.t.Fatalf("%v: %s", err, b.text())
	}
	return v
}

// text is what the page says, for errors.
func (b *tab) text() string {
	text, _ := chromedp.Run(b.ctx,
		chromedp.Evaluate[string](`location + ': ' + document.body.innerText`))
	return text
}

func (b *tab) open(path string) { b.t.Helper(); b.do(chromedp.Navigate(b.server.URL + path)) }

// follow clicks what a selector finds, and waits for the page that follows.
func (b *tab) follow(selector chromedp.CSS) {
	b.t.Helper()
	ctx, end := context.WithTimeout(b.ctx, 30*time.Second)
	defer end()
	if _, err := chromedp.RunResponse(ctx, chromedp.Click(selector)); err != nil {
		b.t.Fatalf("%s: %v: %s", selector, err, b.text())
	}
}

// says waits until the page has a text. A page may be on its way meanwhile.
func (b *tab) says(text string) {
	b.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); <-tick.C {
		said, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](fmt.Sprintf(
			`document.body.innerText.replace(/\s+/g, ' ').includes(%q)`, text)))
		if err == nil && said {
			return
		}
	}
	b.t.Fatalf("the page does not say %q: %s", text, b.text())
}

// write replaces what stands in a field, by keys.
func (b *tab) write(id, text string) {
	b.t.Helper()
	b.do(chromedp.Focus(chromedp.CSS("#"+id)), chromedp.Evaluate[chromedp.Void](
		fmt.Sprintf("document.getElementById(%q).select()", id)), chromedp.KeyEvent(text))
}

func (b *tab) logIn(name string) {
	b.t.Helper()
	b.open("/login")
	b.write("name", name)
	b.write("password", password)
	b.follow("main button")
}

const (
	wrongText = "domain: games\ndescriptors:\n- key: player\n  rate_limit: {unit: mintue, " +
		"requests_per_unit: 5}\n"
	rightText = "domain: games\ndescriptors:\n- key: player\n  rate_limit: {unit: minute, " +
		"requests_per_unit: 5}\n"
)

// TestBrowser goes the way of an admin from the login to a roll back, and that of a viewer.
func TestBrowser(t *testing.T) {
	s := newService(t, watched(t))
	b := s.newTab()
	b.open("/domains/shop")
	b.says("Log in")
	b.write("name", "ann")
	b.write("password", "wrong horse!")
	b.follow("main button")
	b.says("The name or the password is wrong")
	b.write("password", password)
	b.follow("main button")
	b.says("Most limited keys") // what was asked for
	b.chartMoves()

	b.open("/new")
	b.write("name", "games")
	b.write("reason", "a new application")
	b.follow("main button")
	b.says("Edit the rules")
	b.write("text", wrongText)
	b.says(`Line 4, column 22, descriptors[0].rate_limit.unit: unknown unit "mintue"`)
	b.write("reason", "five for each player")
	b.follow(`button[value="save"]`)
	b.says("The text has mistakes. Nothing was saved.")
	b.write("text", rightText)
	b.says("player is new: 5/minute")
	b.follow(`button[value="save"]`)
	b.says("Version 2 is saved.")
	b.says("player 5/minute") // in force, without a reload

	b.conflict()
	b.rollBack()
	b.quiet()
}

// watched shows the figures of the limiter in place of the stub.
func watched(t *testing.T) func(*Config) {
	return func(c *Config) {
		figures := live.New(c.Limiter, hybrid.NewMemory(), live.Config{Log: c.Log})
		ctx, end := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { figures.Run(ctx) })
		t.Cleanup(func() { end(); running.Wait() })
		c.Live, c.LiveCSS = figures.Handler(), live.CSS
	}
}

// highest is how far up the line of admitted requests goes: 1000 is the axis, and 0 the top.
const highest = `Math.min(1000, ...[...(document.querySelector('#live-chart-all .live-line-1')
	?.getAttribute('d') ?? '').matchAll(/[ML][\d.]+ ([\d.]+)/g)].map(m => Number(m[1])))`

// chartMoves: the line of the chart leaves the axis under load, without a reload.
func (b *tab) chartMoves() {
	b.t.Helper()
	b.says("Most limited keys")
	if y := value(b, chromedp.Evaluate[float64](highest)); y != 1000 {
		b.t.Errorf("the line is at %v without load", y)
	}
	b.do(chromedp.Evaluate[chromedp.Void]("document.body.dataset.same = 'yes'"))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-tick.C {
		_, err := b.limiter.Take(b.t.Context(), "shop", rules.Of("user", "ann"))
		b.must(err)
		if value(b, chromedp.Evaluate[float64](highest)) < 900 {
			if value(b, chromedp.Evaluate[string]("document.body.dataset.same ?? ''")) != "yes" {
				b.t.Error("the page was loaded again")
			}
			return
		}
	}
	b.t.Fatalf("the chart does not move under load: %s", b.text())
}

// conflict: while one types somebody else saves.
func (b *tab) conflict() {
	b.t.Helper()
	b.open("/domains/games/edit")
	b.saved("games", 2, strings.Replace(rightText, "5}", "6}", 1))
	b.write("text", strings.Replace(rightText, "5}", "7}", 1))
	b.says("player: 5/minute → 7/minute")
	b.write("reason", "seven")
	b.follow(`button[value="save"]`)
	b.says("Somebody else was faster")
	b.says("version 3 by olga")
	b.says("player: 5/minute → 6/minute")
	b.says("player: 6/minute → 7/minute")
	b.follow(`button[value="save"]`)
	b.says("Version 4 is saved.")
}

// rollBack goes back to version 2.
func (b *tab) rollBack() {
	b.t.Helper()
	b.follow(`.tabs a[href$="/history"]`)
	b.says("player: 6/minute → 7/minute")
	b.follow(`h3 a[href$="/versions/2"]`)
	b.says("player: 7/minute → 5/minute")
	b.write("reason", "five was better")
	b.follow(`form[action$="/versions/2"] button`)
	b.says("Version 5 is saved.")
	b.says("player 5/minute")
	if got := string(b.newest("games").Text); got != rightText {
		b.t.Errorf("version 5 is %q", got)
	}
}

// TestBrowserSessionEnds: a page that is open says so once, and asks no more. What was typed is
// there still.
func TestBrowserSessionEnds(t *testing.T) {
	s := newService(t)
	b := s.newTab()
	b.logIn("ed")
	b.open("/domains/shop")
	b.says("Most limited keys")
	s.must(s.accounts.SetPassword(t.Context(), account.By{Who: "test"}, "ed", password))
	b.says("Your session has ended")
	if n := value(b, chromedp.Evaluate[int](`document.querySelectorAll('#state').length`)); n != 0 {
		t.Error("the state is asked for still")
	}
	b.logIn("ed")
	b.open("/domains/shop/edit")
	b.says("Edit the rules")
	s.must(s.accounts.SetPassword(t.Context(), account.By{Who: "test"}, "ed", password))
	b.write("text", rightText)
	b.says("Your session has ended")
	b.write("reason", "mine")
	b.follow(`button[value="save"]`)
	b.says("What you have typed")
	if text := value(b, chromedp.Value(chromedp.CSS("#typed"))); text != rightText {
		t.Errorf("what was typed is %q", text)
	}
	b.quiet()
}

// TestBrowserWithoutScript: an edit, its check and the figures need none. The first key leads to
// the content.
func TestBrowserWithoutScript(t *testing.T) {
	s := newService(t)
	b := s.newTab()
	call(b, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true})
	b.logIn("ed")
	b.open("/domains/shop/edit")
	b.write("text", strings.Replace(rightText, "games", "shop", 1))
	b.follow(`button[value="check"]`)
	b.says("player is new: 5/minute")
	b.write("reason", "players")
	b.follow(`button[value="save"]`)
	b.says("Version 2 is saved.")
	s.inForce("shop", 2)
	b.says("Most limited keys")
	b.follow(`a[href="/domains/shop?span=24h"]`)
	b.says("in the last 24 hours")
	b.follow(`a[href="/domains/shop/rule?path=player&span=24h"]`)
	b.says("Changes of this rule")

	b.do(chromedp.KeyEvent(kb.Tab))
	const focused = `document.activeElement.textContent + document.activeElement.id`
	if text := value(b, chromedp.Evaluate[string](focused)); text != "Skip to the content" {
		t.Errorf("the first key leads to %q", text)
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	if id := value(b, chromedp.Evaluate[string](`document.activeElement.id`)); id != "main" {
		t.Errorf("then to %q", id)
	}
	b.quiet()
}

// TestBrowserViewer: a viewer finds no way to edit, and none by hand.
func TestBrowserViewer(t *testing.T) {
	s := newService(t)
	b := s.newTab()
	b.logIn("vic")
	b.says("shop")
	b.open("/domains/shop")
	b.says("Most limited keys")
	links := value(b, chromedp.Evaluate[[]string](
		`[...document.querySelectorAll('.tabs a')].map(a => a.textContent)`))
	if fmt.Sprint(links) != "[Rules History Bans Explain]" {
		t.Errorf("the tabs are %q", links)
	}
	status := value(b, chromedp.Evaluate[int](`fetch('/domains/shop/edit', {
		method: 'POST', body: new URLSearchParams({base: 1, reason: 'mine', text: 'domain: shop'}),
	}).then(r => r.status)`, chromedp.EvalAwaitPromise))
	if status != 403 || s.newest("shop").Version != 1 {
		t.Errorf("a form by hand has status %d, and version %d is there", status,
			s.newest("shop").Version)
	}
	b.quiet()
}

// looks are the sizes and colours in which pages are looked at.
var looks = []struct {
	name   string
	width  int64
	scheme string
}{
	{"phone-light", 360, "light"}, {"phone-dark", 360, "dark"}, {"tablet-light", 768, "light"},
	{"wide-light", 1280, "light"}, {"wide-dark", 1280, "dark"},
}

// faults of a page as it is shown: what is wider than the window, what is wider than its place and
// does not look so, fields and buttons without a
// name, boxes far from their labels, actions of the audit log that are not seen, headings out of
// order, ids that are there twice, and text that is hard to read.
const faults = `(() => {
  const list = [], root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) list.push('wider than the window: ' + root.scrollWidth);
  for (const e of document.querySelectorAll('body *')) {
    const style = getComputedStyle(e), scrolls = ['auto', 'scroll'].includes(style.overflowX);
    if (scrolls && e.scrollWidth > e.clientWidth && !style.backgroundImage.includes('gradient'))
      list.push('nothing shows that there is more: ' + e.outerHTML.slice(0, 200));
  }
  const shown = e => e.checkVisibility && e.checkVisibility();
  for (const e of document.querySelectorAll('input:not([type=hidden]), textarea, select'))
    if (!e.labels.length && !e.ariaHidden) list.push('no label: ' + e.outerHTML);
  for (const e of document.querySelectorAll('button, a'))
    if (!e.textContent.trim()) list.push('no name: ' + e.outerHTML);
  for (const e of document.querySelectorAll('label > [type=checkbox]')) {
    const text = document.createRange();
    text.selectNodeContents(e.nextSibling);
    const gap = text.getClientRects()[0].left - e.getBoundingClientRect().right;
    if (gap > 16) list.push('a box ' + gap + ' px from its label: ' + e.parentElement.textContent);
  }
  for (const e of document.querySelectorAll('.log b'))
    if (e.getBoundingClientRect().right > root.clientWidth) list.push('not seen: ' + e.textContent);
  let level = 0;
  for (const e of document.querySelectorAll('h1, h2, h3, h4')) {
    const l = Number(e.tagName[1]);
    if (l > level + 1) list.push('heading skips: ' + e.textContent);
    level = l;
  }
  if (document.querySelectorAll('h1').length !== 1) list.push('not one h1');
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) list.push('twice: ' + id);
  const rgb = c => c.match(/[\d.]+/g).map(Number);
  const linear = v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => c.slice(0, 3).map(linear)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  for (const e of document.querySelectorAll('body *')) {
    const text = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!text || !shown(e)) continue;
    let at = e, paper = [0, 0, 0, 0];
    for (; at && paper[3] === 0; at = at.parentElement) {
      paper = rgb(getComputedStyle(at).backgroundColor);
      if (paper.length === 3) paper.push(1);
    }
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(paper)].sort((x, y) => y - x);
    const contrast = (a + .05) / (b + .05);
    if (contrast < 4.5) list.push('contrast ' + contrast + ': ' + e.outerHTML);
  }
  return list;
})()`

// TestLooks shows all pages on a phone and on a wide screen, light and dark. With
// RATION_PICTURES=FOLDER it leaves a picture of each there, and with RATION_AXE=FILE, the
// axe.min.js of axe-core, each is held to that, too.
func TestLooks(t *testing.T) {
	issuer := openidtest.New(t)
	s := newServiceBy(t, issuer, watched(t))
	s.saved("shop", 1, strings.Replace(shop, "60}", "90}", 1))
	s.inForce("shop", 2)
	for range 100 {
		_, err := s.limiter.Take(t.Context(), "shop", rules.Of("user", "ann"),
			rules.Of("address", "192.0.2.7"), rules.Of("path", "/search"))
		s.must(err)
	}
	_, err := s.accounts.MakeToken(t.Context(), account.By{Who: "ann"}, "ann",
		account.Token{Title: "deployment", TakesOnly: true})
	s.must(err)
	s.ban("user=eve", "scrapes the catalogue since the morning, from three addresses")
	s.ban("address=2001:db8:1234:5678::/64", "floods <b>search</b> \u202e")
	b := s.newTab()
	folder := os.Getenv("RATION_PICTURES")
	session, err := s.accounts.Login(t.Context(), account.By{Who: "ann"}, password)
	s.must(err)
	for _, look := range looks {
		b.do(chromedp.EmulateViewport(look.width, 800))
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}},
		})
		call(b, network.ClearBrowserCookies, cdp.Empty{})
		b.look(folder, look.name, "login", "/login")
		issuer.Lie(openidtest.Lies{Claims: map[string]any{"groups": nil}})
		b.look(folder, look.name, "denied", "/login/oidc")
		issuer.Lie(openidtest.Lies{})
		b.open("/login?next=/account")
		b.follow(`a[href^="/login/oidc"]`)
		b.says("has logged you in")
		b.judge(folder, look.name, "person")
		call(b, network.ClearBrowserCookies, cdp.Empty{})
		call(b, network.SetCookie, network.SetCookieParams{
			Name: "ration", Value: session, URL: s.server.URL,
		})
		for name, path := range map[string]string{
			"domains": "/", "new": "/new", "domain": "/domains/shop", "edit": "/domains/shop/edit",
			"history": "/domains/shop/history", "version": "/domains/shop/versions/1",
			"explain": "/domains/shop/explain?descriptors=user%3Dcrawler%0Apath%3D%2Fsearch",
			"banned":  "/domains/shop/explain?descriptors=user%3Deve%0Apath%3D%2Fsearch",
			"delete":  "/domains/shop/delete", "account": "/account", "users": "/users",
			"user": "/users/ed", "audit": "/audit", "error": "/nothing", "live": "/live/shop",
			"rule":   "/domains/shop/rule?path=user",
			"whatif": "/domains/shop/rule?path=user&number=5&unit=minute", "bans": "/domains/shop/bans?descriptor=user%3Dann",
			"lift": "/domains/shop/bans?lift=user%3Deve",
		} {
			b.look(folder, look.name, name, path)
		}
		b.look(folder, look.name, "form", "/domains/shop/edit?path=user")
		b.open("/domains/shop/edit")
		b.do(chromedp.SetJavascriptAttribute(chromedp.CSS("#text"), "value", strings.Replace(shop, "60}", "5}", 1)))
		b.follow(`button[value="whatif"]`)
		b.says("would have been denied by 5/minute")
		b.judge(folder, look.name, "changes")
		b.open("/domains/shop/edit")
		b.write("text", strings.Replace(wrongText, "games", "shop", 1))
		b.says("1 mistake")
		b.judge(folder, look.name, "mistakes")
		b.open("/domains/shop/edit")
		b.do(chromedp.SetJavascriptAttribute(chromedp.CSS("[name=base]"), "value", "1"))
		b.write("reason", "bursts")
		b.follow(`button[value="save"]`)
		b.says("Somebody else was faster")
		b.judge(folder, look.name, "conflict")
	}
	b.quiet()
}

func (b *tab) look(folder, look, name, path string) {
	b.t.Helper()
	b.open(path)
	b.judge(folder, look, name)
}

func (b *tab) judge(folder, look, name string) {
	b.t.Helper()
	for _, fault := range value(b, chromedp.Evaluate[[]string](faults)) {
		b.t.Errorf("%s, %s: %s", name, look, fault)
	}
	b.axe(look + ", " + name)
	if folder == "" {
		return
	}
	picture := value(b, chromedp.FullScreenshot(100))
	b.must(os.WriteFile(filepath.Join(folder, name+"-"+look+".png"), picture, 0o644))
}

// axe holds a page to axe-core, if the environment names it.
func (b *tab) axe(page string) {
	b.t.Helper()
	file := os.Getenv("RATION_AXE")
	if file == "" {
		return
	}
	script, err := os.ReadFile(file)
	b.must(err)
	found := value(b, chromedp.Evaluate[[]string](string(script)+`;
axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(
  v => v.id + ': ' + v.nodes.map(n => n.target.join(' ')).join(', ')))`, chromedp.EvalAwaitPromise))
	for _, fault := range found {
		b.t.Errorf("%s: axe-core: %s", page, fault)
	}
}
