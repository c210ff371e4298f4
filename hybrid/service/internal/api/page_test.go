package api_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/pagetest"
)

// A block is one of the page.
type block struct{ language, text string }

// page is docs/service-api.md: its blocks, in their order.
func page(t *testing.T) (blocks []block) {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/service-api.md")
	must(t, err)
	parts := strings.Split(string(text), "\n```")
	for i := 1; i < len(parts); i += 2 {
		language, text, _ := strings.Cut(parts[i], "\n")
		blocks = append(blocks, block{language, text + "\n"})
	}
	return blocks
}

// TestPage: the commands and the program of docs/service-api.md, as they stand there but for the
// address and the token, print what the page says, but for times, names and what is left.
func TestPage(t *testing.T) {
	pagetest.Installed(t, "sh")
	pagetest.Installed(t, "curl")
	pagetest.Installed(t, "python3")
	s := newService(t)
	s.do(t, "ann", "DELETE", "/v1/domains/shop?reason=r", "", 200, "If-Match", `"1"`)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	blocks := page(t)

	const end = "\n-- end of the block --\n"
	script, program := "set -eu\n", ""
	for _, b := range blocks {
		switch b.language {
		case "sh":
			script += b.text + "printf '" + strings.ReplaceAll(end, "\n", `\n`) + "'\n"
		case "python":
			program = b.text
		}
	}
	for from, to := range map[string]string{
		"RATION=http://localhost:8080": "RATION=" + server.URL, "TOKEN=paste-yours-here": "TOKEN=ann",
	} {
		if strings.Count(script, from) != 1 {
			t.Fatalf("the page does not say %s once", from)
		}
		script = strings.Replace(script, from, to, 1)
	}
	printed := strings.Split(run(t, exec.CommandContext(t.Context(), "sh", "-c", script)), end)
	within(t, "what was rolled back", func() bool {
		cafe, _ := s.limiter.Rules().Domain("cafe")
		return len(cafe.Rules) == 2 && cafe.Rules[0].Text == "3/hour"
	})
	python := exec.CommandContext(t.Context(), "python3", "-c", program)
	python.Env = append(os.Environ(), "RATION="+server.URL, "TOKEN=ann")
	printed = append(printed[:len(printed)-1], run(t, python))

	n, compared := -1, 0
	for _, b := range blocks {
		switch b.language {
		case "sh", "python":
			n++
		case "json":
			compared++
			if got, want := stable(t, printed[n]), stable(t, b.text); !reflect.DeepEqual(got, want) {
				t.Errorf("the page says\n%s\nand it is\n%s", b.text, printed[n])
			}
		default:
			compared++
			if printed[n] != b.text {
				t.Errorf("the page says\n%s\nand it is\n%s", b.text, printed[n])
			}
		}
	}
	if n < 15 || n != len(printed)-1 || compared < 12 {
		t.Errorf("%d blocks printed %d texts, and %d were compared", n, len(printed), compared)
	}
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// stable is JSON without what differs from run to run.
func stable(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(fmt.Errorf("%w: %s", err, text))
	}
	return without(v, "time", "remaining", "reset_after", "source")
}

func without(v any, names ...string) any {
	switch v := v.(type) {
	case map[string]any:
		for _, n := range names {
			delete(v, n)
		}
		for _, x := range v {
			without(x, names...)
		}
	case []any:
		for _, x := range v {
			without(x, names...)
		}
	}
	return v
}

// TestPageIsWhole: the page tells every path.
func TestPageIsWhole(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/service-api.md")
	must(t, err)
	for path := range describe(t).Paths.Map() {
		if !strings.Contains(string(text), strings.TrimSuffix(path, "/rules")) {
			t.Errorf("the page does not tell %s", path)
		}
	}
}
