package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/hybrid/service/internal/humanize"
)

//go:embed templates static htmx
var files embed.FS

// static are the files that browsers keep, by their names.
var static = map[string]file{
	"style.css":   embedded("static/style.css", "text/css; charset=utf-8"),
	"edit.js":     embedded("static/edit.js", "text/javascript; charset=utf-8"),
	"icon.svg":    embedded("static/icon.svg", "image/svg+xml"),
	"htmx.min.js": embedded("htmx/htmx.min.js", "text/javascript; charset=utf-8"),
}

type file struct {
	text       []byte
	kind, hash string
}

func embedded(name, kind string) file {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return newFile(text, kind)
}

func newFile(text []byte, kind string) file {
	sum := sha256.Sum256(text)
	return file{text, kind, hex.EncodeToString(sum[:6])}
}

// path is where browsers find a file for as long as they keep it.
func (f file) path(name string) string { return "/static/" + name + "?v=" + f.hash }

// liveCSS is the name of Config.LiveCSS.
const liveCSS = "live.css"

// LiveCSS is the path of Config.LiveCSS, if there is one.
func (v *visit) LiveCSS() string {
	if f, ok := v.page.static[liveCSS]; ok {
		return f.path(liveCSS)
	}
	return ""
}

func (p *Page) serveStatic(w http.ResponseWriter, r *http.Request) {
	f, known := p.static[r.PathValue("file")]
	if !known {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	if r.URL.Query().Get("v") == f.hash {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.text))
}

var functions = template.FuncMap{
	// path is a part of a path, whatever bytes it has.
	"path":      url.PathEscape,
	"static":    func(name string) string { return static[name].path(name) },
	"persecond": perSecond,
	"date":      func(t time.Time) string { return t.UTC().Format(time.DateOnly) },
	"clock":     func(t time.Time) string { return t.UTC().Format(time.TimeOnly) },
	"stamp":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"roles":     func() []string { return []string{"viewer", "editor", "admin"} },
	"all":       func() string { return account.All },
	"dict":      dict,
	"count":     number,
	"words":     func() string { return wordsJSON },
}

// perSecond writes a rate, or a dash if it is not known.
func perSecond(rate float64) string {
	if math.IsNaN(rate) {
		return "–"
	}
	digits := strconv.FormatFloat(rate, 'f', map[bool]int{true: 0, false: 1}[rate >= 100], 64)
	return strings.TrimSuffix(digits, ".0") + "/s"
}

// dict makes a map of names and values.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: %d values", len(pairs))
	}
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is no name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// pages are the templates of whole pages, each with the layout and the parts that several use.
var pages = parse()

func parse() map[string]*template.Template {
	common := template.Must(template.New("").Funcs(functions).
		ParseFS(files, "templates/layout.html", "templates/parts.html"))
	names, err := files.ReadDir("templates")
	if err != nil {
		panic(err) // it is embedded
	}
	all := map[string]*template.Template{"": common}
	for _, f := range names {
		if name := strings.TrimSuffix(f.Name(), ".html"); name != "layout" && name != "parts" {
			t := template.Must(common.Clone())
			all[name] = template.Must(t.ParseFS(files, path.Join("templates", f.Name())))
		}
	}
	return all
}

// shown is what templates see.
type shown struct {
	*visit
	Title string
	Data  any
}

// show answers with a page, or with a part if there is no page of that name.
func (v *visit) show(status int, name, title string, data any) {
	t, of := pages[name], "layout"
	if t == nil {
		t, of = pages[""], name
	}
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, of, shown{v, title, data}); err != nil {
		v.page.log.Error("a page cannot be shown", "page", name, "error", err)
		http.Error(v.w, "This page cannot be shown.", http.StatusInternalServerError)
		return
	}
	v.leave()
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(humanize.Visible(out.Bytes())) // the client may have gone
}
