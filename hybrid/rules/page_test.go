package rules_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/pagetest"
)

// TestPage: the file and the program of docs/rules.md, as they stand there but for addresses and
// the folder, limit, and a change of the file is in force within a second.
func TestPage(t *testing.T) {
	const page = "../../docs/rules.md"
	file := pagetest.Fragment(t, page, "domain: shop\n")
	if _, err := parse(file); err != nil {
		t.Fatal(err)
	}
	dir, listens := t.TempDir(), redistest.FreeAddr(t)
	must(t, os.Mkdir(filepath.Join(dir, "rules"), 0o700))
	name := filepath.Join(dir, "rules", "shop.yaml")
	must(t, os.WriteFile(name, []byte(file), 0o600))
	pagetest.Run(t, dir, pagetest.Fragment(t, page, "package main\n"), map[string]string{
		"localhost:6379": redistest.Start(t).Addr, "localhost:8080": listens,
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
	yes, begin := 0, time.Now()
	for ; status("ann") == http.StatusOK; yes++ {
	}
	// 20 at once and 5 a second, but for the reserve of the pool.
	if took := time.Since(begin); yes < 15 || float64(yes) > 20+5*took.Seconds() {
		t.Errorf("%d were admitted in %v", yes, took)
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
