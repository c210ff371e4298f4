package rules_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// must fails the test.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes a file of a domain.
func write(t testing.TB, name, domain string) {
	t.Helper()
	must(t, os.WriteFile(name, []byte("domain: "+domain+"\n"), 0o600))
}

// domains are those that a source has, and the tag.
func domains(t testing.TB, s rules.Source) (names, tag string) {
	t.Helper()
	docs, tag, err := s.Load(t.Context())
	must(t, err)
	r, err := rules.Parse(docs...)
	must(t, err)
	var list []string
	for _, d := range r.Domains() {
		list = append(list, d.Name)
	}
	return strings.Join(list, " "), tag
}

// awaits waits for a change that do makes, and fails if it is not seen in ten seconds.
func awaits(t *testing.T, s rules.Source, tag string, do func()) {
	t.Helper()
	bounded, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ctx := &noticing{Context: bounded, asked: make(chan struct{})}
	seen := make(chan error, 1)
	go func() { seen <- s.Wait(ctx, tag) }()
	<-ctx.asked
	do()
	if err := <-seen; err != nil {
		t.Fatal(err)
	}
}

// A noticing context notices when somebody waits for its end: a Wait has seen by then that
// nothing has changed.
type noticing struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (c *noticing) Done() <-chan struct{} {
	c.once.Do(func() { close(c.asked) })
	return c.Context.Done()
}

// TestFiles: each way in which files change is seen, by events alone and by polls alone.
func TestFiles(t *testing.T) {
	for name, c := range map[string]struct {
		start func(t *testing.T, dir string)
		path  string // in the folder
		do    func(t *testing.T, dir string)
		has   string
	}{
		"written": {
			func(t *testing.T, dir string) { write(t, dir+"/a.yaml", "a") }, "a.yaml",
			func(t *testing.T, dir string) { write(t, dir+"/a.yaml", "b") }, "b",
		},
		"renamed by an editor": {
			func(t *testing.T, dir string) { write(t, dir+"/a.yaml", "a") }, "a.yaml",
			func(t *testing.T, dir string) {
				write(t, dir+"/.a.swp", "b")
				must(t, os.Rename(dir+"/.a.swp", dir+"/a.yaml"))
			}, "b",
		},
		"removed and made anew": {
			func(t *testing.T, dir string) { write(t, dir+"/a.yaml", "a") }, "a.yaml",
			func(t *testing.T, dir string) {
				must(t, os.Remove(dir+"/a.yaml"))
				write(t, dir+"/a.yaml", "b")
			}, "b",
		},
		"one more in a folder": {
			func(t *testing.T, dir string) {
				write(t, dir+"/a.yaml", "a")
				write(t, dir+"/.hidden.yaml", "hidden")
				write(t, dir+"/readme.txt", "text")
				must(t, os.Mkdir(dir+"/folder.yaml", 0o700))
			}, "",
			func(t *testing.T, dir string) { write(t, dir+"/b.yml", "b") }, "a b",
		},
		"Kubernetes' link in a folder": {kubernetes, "", swap, "b"},
		"Kubernetes' link to a file":   {kubernetes, "a.yaml", swap, "b"},
		"a folder comes back": {
			func(t *testing.T, dir string) {
				must(t, os.Mkdir(dir+"/f", 0o700))
				write(t, dir+"/f/a.yaml", "a")
			}, "f",
			func(t *testing.T, dir string) {
				must(t, os.RemoveAll(dir+"/f"))
				must(t, os.Mkdir(dir+"/f.new", 0o700))
				write(t, dir+"/f.new/a.yaml", "b")
				must(t, os.Rename(dir+"/f.new", dir+"/f"))
			}, "b",
		},
	} {
		for kind, watch := range map[string]bool{"events": true, "polls": false} {
			t.Run(name+" by "+kind, func(t *testing.T) {
				dir := t.TempDir()
				c.start(t, dir)
				poll := time.Hour
				if !watch {
					poll = 5 * time.Millisecond
				}
				s := rules.Files(filepath.Join(dir, c.path)).Polled(poll, watch)
				has, tag := domains(t, s)
				if has != "a" {
					t.Fatal(has)
				}
				awaits(t, s, tag, func() { c.do(t, dir) })
				if has, _ := domains(t, s); has != c.has {
					t.Errorf("%q, not %q", has, c.has)
				}
			})
		}
	}
}

// kubernetes makes a folder as it mounts a ConfigMap.
func kubernetes(t *testing.T, dir string) {
	must(t, os.Mkdir(dir+"/..1", 0o700))
	write(t, dir+"/..1/a.yaml", "a")
	must(t, os.Symlink("..1", dir+"/..data"))
	must(t, os.Symlink("..data/a.yaml", dir+"/a.yaml"))
}

// swap changes the ConfigMap.
func swap(t *testing.T, dir string) {
	must(t, os.Mkdir(dir+"/..2", 0o700))
	write(t, dir+"/..2/a.yaml", "b")
	must(t, os.Symlink("..2", dir+"/..data_tmp"))
	must(t, os.Rename(dir+"/..data_tmp", dir+"/..data"))
	must(t, os.RemoveAll(dir+"/..1"))
}

// TestNoFiles: what cannot be read is an error that names it, and a Wait for it ends.
func TestNoFiles(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string)
		says string
	}{
		"nothing there": {func(*testing.T, string) {}, "no such file"},
		"empty folder": {func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir+"/x", 0o700))
		}, "has no .yaml files"},
		"a circle of links": {func(t *testing.T, dir string) {
			must(t, os.Symlink("x", dir+"/x"))
		}, "too many levels"},
		"a broken link in a folder": {func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir+"/x", 0o700))
			must(t, os.Symlink("nowhere", dir+"/x/a.yaml"))
		}, "no such file"},
		"no rights": {func(t *testing.T, dir string) {
			if os.Geteuid() == 0 {
				t.Skip("root may read everything")
			}
			must(t, os.Mkdir(dir+"/x", 0o000))
		}, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.make(t, dir)
			s := rules.Files(filepath.Join(dir, "x"))
			_, _, err := s.Load(t.Context())
			if err == nil || !strings.HasPrefix(err.Error(), "rules: ") ||
				!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), dir) {
				t.Error(err)
			}
			if err := s.Wait(t.Context(), "tag"); err != nil {
				t.Error(err)
			}
		})
	}
	if _, _, err := rules.Files().Load(t.Context()); err == nil {
		t.Error("no path is no error")
	}
}

// TestFilesStop: a Wait ends with its context.
func TestFilesStop(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", "a")
	s := rules.Files(dir)
	_, tag := domains(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ctx, tag); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
