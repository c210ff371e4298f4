package live

import (
	"bytes"
	_ "embed" // live.html
	"hash/fnv"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/humanize"
)

//go:embed live.html
var text string

var templates = template.Must(template.New("live").Funcs(template.FuncMap{
	"number": number, "rate": rate, "brief": brief, "count": humanize.Count, "anchor": anchor,
}).Parse(text))

// Handler serves the fragments of domains, GET
// /live/DOMAIN?span=5m|24h&filter=TEXT&process=ID, of rules, GET
// /live/DOMAIN/rule?path=PATH&span=5m|24h&mark=MS.VERSION, and of keys, GET
// /live/DOMAIN/key?key=NAME or ?descriptor=PATH. A mark is a version of the rules that has changed
// the rule, and its time in ms since 1970. A fragment of a domain or a rule costs no call to the
// store, one of a key at most one each 2 s. It asks for no rights.
func (l *Live) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live/{domain}", l.serveDomain)
	mux.HandleFunc("GET /live/{domain}/rule", l.serveRule)
	mux.HandleFunc("GET /live/{domain}/key", l.serveKey)
	return mux
}

func (l *Live) serveDomain(w http.ResponseWriter, r *http.Request) {
	all := l.limiter.Rules()
	d, ok := all.Domain(r.PathValue("domain"))
	if !ok {
		http.NotFound(w, r)
		return
	}
	at, ok := spanOf(r)
	if !ok {
		http.Error(w, noSpan, http.StatusBadRequest)
		return
	}
	write(w, "domain", l.view(all, d, at, r.FormValue("filter"), r.FormValue("process")))
}

const noSpan = "span is not 5m or 24h"

// spanOf is the span of a request.
func spanOf(r *http.Request) (at span, ok bool) {
	if name := r.FormValue("span"); name != "" {
		at = span(slices.Index(spanNames[:], name))
	}
	return at, at >= 0
}

func (l *Live) serveRule(w http.ResponseWriter, r *http.Request) {
	all := l.limiter.Rules()
	d, ok := all.Domain(r.PathValue("domain"))
	if !ok {
		http.NotFound(w, r)
		return
	}
	at, ok := spanOf(r)
	if !ok {
		http.Error(w, noSpan, http.StatusBadRequest)
		return
	}
	path := r.FormValue("path")
	if path == "" || len(path) > rules.MaxBytes {
		http.Error(w, "path is no path of a rule", http.StatusBadRequest)
		return
	}
	marks, ok := marksOf(r.Form["mark"])
	if !ok {
		http.Error(w, "mark is not MS.VERSION", http.StatusBadRequest)
		return
	}
	write(w, "rule", l.rulePage(all, d, at, path, marks))
}

func (l *Live) serveKey(w http.ResponseWriter, r *http.Request) {
	all, domain := l.limiter.Rules(), r.PathValue("domain")
	if _, ok := all.Domain(domain); !ok {
		http.NotFound(w, r)
		return
	}
	name := r.FormValue("key")
	if name == "" {
		text := r.FormValue("descriptor")
		var problem string
		if name, problem = nameOf(all, domain, text); problem != "" {
			write(w, "key", keyPage{Domain: domain, Descriptor: shortened(text, 200), Problem: problem})
			return
		}
	}
	b, err := all.Bucket(domain, name)
	if err != nil || len(name) > rules.MaxBytes {
		http.Error(w, "key is no name of a bucket", http.StatusBadRequest)
		return
	}
	write(w, "key", l.keyPage(r.Context(), domain, name, b))
}

// nameOf returns the name of the bucket by which a descriptor is limited, or why there is none.
func nameOf(all *rules.Rules, domain, text string) (name, problem string) {
	entries, err := rules.ParsePath(strings.TrimSpace(text))
	if err != nil {
		return "", "A descriptor is key=value, with commas between several."
	}
	e, err := all.Explain(domain, rules.Descriptor{Entries: entries})
	switch {
	case err != nil:
		return "", "A descriptor is key=value, with commas between several."
	case e[0].Key == "":
		return "", "No limit is in force for this descriptor: it is " + e[0].State.String() + "."
	}
	_, name, _ = strings.Cut(e[0].Key, ":") // a namespace has no colon
	return name, ""
}

// write renders a fragment as a whole, or nothing of it.
func write(w http.ResponseWriter, name string, data any) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, "live: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(humanize.Visible(b.Bytes()))
}

// anchor is an id for a link, so that it has the focus again when the table around it is new.
func anchor(of string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(of))
	return "live-" + strconv.FormatUint(h.Sum64(), 36)
}
