package rules_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/tether"
)

// TestPage: the file and the program of docs/rules.md, as they stand there but for addresses and
// the folder, limit, and a change of the file is in force within a second.
func TestPage(t *testing.T) {
	redis := redistest.Start(t)
	page, err := os.ReadFile("../../docs/rules.md")
	must(t, err)
	_, rest, found := strings.Cut(string(page), "```yaml\n")
	file, rest, ended := strings.Cut(rest, "```\n")
	_, program, found2 := strings.Cut(rest, "```go\npackage main\n")
	program, _, ended2 := strings.Cut(program, "```\n")
	if !found || !ended || !found2 || !ended2 {
		t.Fatal("docs/rules.md has no file and program")
	}
	if _, err := parse(file); err != nil {
		t.Fatal(err)
	}
	dir, listens := t.TempDir(), redistest.FreeAddr(t)
	must(t, os.Mkdir(filepath.Join(dir, "rules"), 0o700))
	name := filepath.Join(dir, "rules", "shop.yaml")
	must(t, os.WriteFile(name, []byte(file), 0o600))
	for from, to := range map[string]string{
		`"localhost:6379"`: strconv.Quote(redis.Addr), `"localhost:8080"`: strconv.Quote(listens),
	} {
		if strings.Count(program, from) != 1 {
			t.Fatalf("the program does not say %s once", from)
		}
		program = strings.Replace(program, from, to, 1)
	}
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	must(t, os.WriteFile(source, []byte("package main\n"+program), 0o600))
	if out, err := exec.Command("go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(binary)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	gone, err := tether.Start(cmd)
	must(t, err)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-gone
	})

	status := func(user string) int {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		for deadline := time.Now().Add(20 * time.Second); ; {
			r, err := client.Get("http://" + listens + "/?user=" + user)
			if err == nil {
				r.Body.Close()
				return r.StatusCode
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	yes := 0
	for range 30 {
		if status("ann") == http.StatusOK {
			yes++
		}
	}
	if yes < 15 || yes == 30 { // of 20 at once and 5 a second, but for the reserve of the pool
		t.Errorf("%d of 30 were admitted", yes)
	}
	must(t, os.WriteFile(name+".new", []byte("domain: shop\ndescriptors:\n- {key: user, rate_limit: "+
		"{unit: day, requests_per_unit: 0}}\n"), 0o600))
	must(t, os.Rename(name+".new", name))
	changed := time.Now()
	denied := 0
	for denied < 10 { // in a row: the bucket of the address has gaps between its tokens
		if status("eve") == http.StatusTooManyRequests {
			denied++
		} else {
			denied = 0
		}
		if since := time.Since(changed); since > 10*time.Second {
			t.Fatal("the change is not in force")
		}
	}
}
