package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/pagetest"
	"github.com/seed13b07268/ration/sim/simtest"
)

// chromium returns the path of a browser.
func chromium(t *testing.T) string {
	t.Helper()
	return pagetest.Installed(t, "chromium", "chromium-browser", "google-chrome")
}

// load returns what the browser made of a page, as HTML.
func load(t *testing.T, browser, file string, flags ...string) string {
	t.Helper()
	profile, err := os.MkdirTemp("", "report")
	simtest.OK(t, err)
	// Not t.TempDir: the browser's last process may still write to it, which is
	// no failure of ours.
	t.Cleanup(func() { os.RemoveAll(profile) })
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, append(append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir=" + profile, "--virtual-time-budget=60000", "--dump-dom",
	}, flags...), "file://"+file)...)
	cmd.WaitDelay = 5 * time.Second
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", browser, err, problems.String())
	}
	return out.String()
}

func writePage(t *testing.T, dir, name string, p Page) string {
	t.Helper()
	file := filepath.Join(dir, name+".html")
	simtest.OK(t, os.WriteFile(file, write(t, p), 0o644))
	return file
}

var (
	attribute     = regexp.MustCompile(`data-([a-z]+)="([^"]*)"`)
	rootTag       = regexp.MustCompile(`<html[^>]*>`)
	seenAttribute = regexp.MustCompile(`data-seen="([^"]*)"`)
)

// A page opened from a file, as a reader does, draws its charts, and hostile
// text does nothing. TestBrowserWidths has all pages, in frames.
func TestBrowser(t *testing.T) {
	browser := chromium(t)
	for name, charts := range map[string]string{
		"hostile": "5", "hunt": "0", // its charts need no script
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dom := load(t, browser, writePage(t, t.TempDir(), name, pages[name]), "--window-size=1280,900")
			got := map[string]string{}
			for _, m := range attribute.FindAllStringSubmatch(rootTag.FindString(dom), -1) {
				got[m[1]] = m[2]
			}
			want := map[string]string{"charts": charts, "overflow": "0", "scheme": "light"}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("<html> has %v, want %v", got, want)
			}
		})
	}
}

// visit loads the pages in frames, because a window is never narrower than
// 500 pixels, and narrows them while they are shown. At each width it notes what
// they say of themselves, then goes through their charts by keys.
const visit = `<!DOCTYPE html>
<style>iframe { position: absolute; top: 0; left: 0; border: 0; }</style>
%s
<script>
const pause = () => new Promise(done => setTimeout(done, 100));
onload = async () => {
  const seen = [];
  for (const frame of document.querySelectorAll('iframe')) {
    const page = frame.contentDocument, root = page.documentElement;
    const boxes = [...page.querySelectorAll('.chart')];
    const first = page.querySelector('.chart, .scatter'), tiles = page.querySelector('#facts, .first');
    for (const width of [1600, 800, 360]) {
      frame.width = width;
      // The browser does so with its next frame, which the tests' virtual time runs ahead of.
      frame.contentWindow.dispatchEvent(new Event('resize'));
      await pause();
      seen.push({
        page: frame.id, width, ...root.dataset,
        wide: boxes.map(b => b.querySelector('canvas').getBoundingClientRect().right).filter(r => r > width).join(),
        blank: boxes.filter(b => {
          const c = b.querySelector('canvas');
          return !c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v);
        }).length,
        overflow: String(root.scrollWidth - root.clientWidth),
        late: width < 500 && !!tiles && !!first && first.getBoundingClientRect().top > tiles.getBoundingClientRect().top,
      });
    }
    const press = (box, key) => box.dispatchEvent(new KeyboardEvent('keydown', {key}));
    let silent = 0, differs = '';
    for (const box of boxes) {
      press(box, 'End');
      const tip = box.querySelector('.tip');
      if (tip.hidden || !tip.textContent) silent++;
      const r = tip.getBoundingClientRect();
      if (r.left < 0 || r.right > 360) differs += 'tip from ' + r.left + ' to ' + r.right + '; ';
      press(box, 'Escape');
      if (!tip.hidden) differs += 'tip stays; ';
    }
    // What a chart tells of a process is what the table says.
    const tokens = page.querySelector('[data-chart="tokens"]');
    [...page.querySelectorAll('#shares tbody tr')].slice(0, 64).forEach(row => {
      press(tokens, 'ArrowRight');
      const told = [...tokens.querySelectorAll('.tip b, .tip dd')].map(e => e.textContent.trim()).join(' | ');
      const stands = [...row.cells].map(c => c.textContent.trim()).join(' | ');
      if (told !== stands) differs += told + ' is not ' + stands + '; ';
    });
    // A press on a line's name hides it, or shows it again.
    const button = page.querySelector('[data-line="offered"]');
    if (button) {
      const before = button.getAttribute('aria-pressed');
      button.click();
      if (button.getAttribute('aria-pressed') === before) differs += 'offered does not change; ';
    }
    // Paper is white and not very wide, and the screen is then as it was.
    const scheme = root.dataset.scheme;
    frame.width = 1600;
    frame.contentWindow.dispatchEvent(new Event('resize'));
    frame.contentWindow.dispatchEvent(new Event('beforeprint'));
    if (root.dataset.scheme !== 'light') differs += 'printed ' + root.dataset.scheme + '; ';
    if (boxes.some(b => b.querySelector('canvas').offsetWidth > 660)) differs += 'too wide for paper; ';
    frame.contentWindow.dispatchEvent(new Event('afterprint'));
    if (root.dataset.scheme !== scheme) differs += 'still printed; ';
    await pause();
    seen.push({page: frame.id, ...root.dataset, silent, differs});
  }
  document.documentElement.dataset.seen = JSON.stringify(seen);
};
</script>`

func TestBrowserWidths(t *testing.T) {
	browser := chromium(t)
	dir := t.TempDir()
	charts := map[string]string{
		"3": "3", "64": "3", "500": "3", "compare": "3", "tune": "2", "hostile": "5", "small": "5",
		"gaps": "3", "hunt": "0", "sweep": "0",
	}
	var frames strings.Builder
	for name := range charts {
		writePage(t, dir, name, pages[name])
		fmt.Fprintf(&frames, "<iframe id=%[1]q src=\"%[1]s.html\" width=1600 height=900></iframe>\n", name)
	}
	file := filepath.Join(dir, "visit.html")
	simtest.OK(t, os.WriteFile(file, fmt.Appendf(nil, visit, frames.String()), 0o644))
	for scheme, flag := range map[string]string{"dark": "0", "light": "1"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			dom := load(t, browser, file, "--window-size=1600,900", "--allow-file-access-from-files", "--blink-settings=preferredColorScheme="+flag)
			m := seenAttribute.FindStringSubmatch(dom)
			if m == nil {
				t.Fatal("the visit did not end")
			}
			var seen []struct {
				Page, Charts, Error, Overflow, Scheme, Hacked, Wide, Differs string
				Width, Blank, Silent                                         int
				Late                                                         bool // tiles before charts, on a phone
			}
			simtest.OK(t, json.Unmarshal([]byte(html.UnescapeString(m[1])), &seen))
			if want := 4 * len(charts); len(seen) != want {
				t.Errorf("%d visits, want %d", len(seen), want)
			}
			for _, s := range seen {
				if s.Charts != charts[s.Page] || s.Error != "" || s.Scheme != scheme || s.Overflow != "0" || s.Hacked != "" ||
					s.Wide != "" || s.Blank != 0 || s.Silent != 0 || s.Differs != "" || s.Late {
					t.Errorf("want %s charts: %+v", charts[s.Page], s)
				}
			}
		})
	}
}
