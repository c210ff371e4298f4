package page

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/account"
)

// mostRows bounds a table. There are up to 10,000 rules.
const mostRows = 500

// A stateView is which version is in force, and what is to be said about it.
type stateView struct {
	InForce bool
	Version int64 // in force
	Newest  int64 // 0 if it is not known
	Source  rules.SourceStats
}

func (v *visit) stateView(newest *rules.Revision) stateView {
	figures, _ := v.page.domainFigures(v.Domain)
	_, known := v.page.config.Limiter.Rules().Domain(v.Domain)
	data := stateView{InForce: known, Version: figures.Version, Source: v.page.figures().Source}
	if newest != nil {
		data.Newest = newest.Version
	}
	return data
}

// force says for which keys a rule is in force.
func force(percent float64) string {
	switch percent {
	case 0:
		return "no key: it is a shadow, and only counts"
	case 100:
		return "all keys"
	}
	return fmt.Sprintf("%g %% of keys", percent)
}

// newest returns the newest revision of the domain of the path, if there is a book that has one.
// If the book does not answer it is nil, and away says so.
func (v *visit) newest() (newest *rules.Revision, away bool) {
	if v.page.config.Book == nil {
		return nil, false
	}
	list, err := v.page.config.Book.History(v.r.Context(), v.Domain, 0, 1)
	switch {
	case len(v.Domain) > account.MaxDomain:
		return nil, false // no book has it
	case err != nil:
		v.page.log.Error("the book of rules does not answer", "domain", v.Domain, "error", err)
		return nil, true
	case len(list) == 0:
		return nil, false
	}
	return &list[0], false
}

// known reports whether there is the domain, or was. If not it answers.
func (v *visit) known(newest *rules.Revision) bool {
	_, inForce := v.page.config.Limiter.Rules().Domain(v.Domain)
	if newest == nil && !inForce {
		v.noPage()
		return false
	}
	return true
}

func (v *visit) view() {
	newest, away := v.newest()
	if !v.known(newest) {
		return
	}
	query := v.r.URL.Query()
	data := struct {
		Newest        *rules.Revision
		Deleted, Away bool
		Saved         bool
		Live          template.HTML
		State         stateView
	}{
		Newest: newest, Away: away, Deleted: newest != nil && newest.Text == nil,
		State: v.stateView(newest),
		Live: v.fragmentOf("", url.Values{
			"span": {query.Get("span")}, "filter": {query.Get("filter")},
		}),
	}
	data.Saved = newest != nil && v.r.URL.Query().Get("saved") == fmt.Sprint(newest.Version)
	v.show(http.StatusOK, "domain", v.Domain, data)
}

// state is which version is in force, which a page asks for again and again.
func (v *visit) state() {
	newest, ok := v.head()
	if ok && v.known(newest) {
		v.show(http.StatusOK, "statepart", "", v.stateView(newest))
	}
}

// fragmentOf is what Config.Live tells of what is below the domain, or nothing.
func (v *visit) fragmentOf(below string, query url.Values) template.HTML {
	if v.page.config.Live == nil {
		return ""
	}
	r := v.r.Clone(v.r.Context())
	r.URL = &url.URL{
		Path:    "/live/" + v.Domain + below,
		RawPath: "/live/" + url.PathEscape(v.Domain) + below, RawQuery: query.Encode(),
	}
	part := &recorder{header: http.Header{}, status: http.StatusOK}
	v.page.config.Live.ServeHTTP(part, r)
	if part.status != http.StatusOK {
		return ""
	}
	return template.HTML(part.text.String()) // a handler of this program has made it
}

// A head is the newest revision of a domain as of a moment, without its text.
type head struct {
	newest *rules.Revision
	asOf   time.Time
}

const (
	headLife  = 2 * time.Second // each open page asks as often
	mostHeads = 1000
)

// head is newest for what asks again and again: it may be as old as headLife while it is in force,
// and has no text. If there is no place for the text of another one it answers, and ok is false.
func (v *visit) head() (newest *rules.Revision, ok bool) {
	if h := v.page.head(v.Domain); h != nil {
		return h, true
	}
	if !v.hold() {
		return nil, false
	}
	if h := v.page.head(v.Domain); h != nil { // somebody else has read it meanwhile
		return h, true
	}
	if newest, _ = v.newest(); newest != nil {
		newest = &rules.Revision{Version: newest.Version}
		v.page.keep(v.Domain, newest)
	}
	return newest, true
}

// head is what was kept, or nil if it is too old, or another version is in force.
func (p *Page) head(domain string) *rules.Revision {
	inForce, _ := p.domainFigures(domain)
	p.mu.Lock()
	defer p.mu.Unlock()
	h, known := p.heads[domain]
	if !known || time.Since(h.asOf) >= headLife || h.newest.Version != inForce.Version {
		return nil
	}
	return h.newest
}

func (p *Page) keep(domain string, newest *rules.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.heads) >= mostHeads {
		clear(p.heads)
	}
	p.heads[domain] = head{newest, time.Now()}
}

// live is the fragment of Config.Live, or a page around it for a browser that follows a link.
func (v *visit) live() {
	switch {
	case v.page.config.Live == nil:
		v.noPage()
		return
	case v.fragment():
		v.page.config.Live.ServeHTTP(v.w, v.r)
		return
	}
	part := &recorder{header: http.Header{}, status: http.StatusOK}
	v.page.config.Live.ServeHTTP(part, v.r)
	if part.status != http.StatusOK {
		v.fail(part.status, "There are no figures", strings.TrimSpace(part.text.String()))
		return
	}
	v.show(http.StatusOK, "live", v.Domain+": figures",
		template.HTML(part.text.String())) // a handler of this program has made it
}

// A recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	text   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.text.Write(b) }
