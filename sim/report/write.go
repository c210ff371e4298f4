package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"reflect"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string

	//go:embed uplot/uPlot.iife.min.js
	uplotJS string
	//go:embed uplot/uPlot.min.css
	uplotCSS string
	//go:embed uplot/LICENSE
	uplotLicence string
)

var page = template.Must(template.New("page").Parse(pageHTML))

// What is the same in every page: style, scripts, and the policy that lets in
// nothing else. They are whole elements, because a browser hashes the bytes
// between the tags and a template might change them.
var (
	library = "/*\nuPlot\n\n" + uplotLicence + "\n*/\n" + uplotJS
	style   = "/* uPlot: the licence is in the script below. */\n" + uplotCSS + "\n" + pageCSS

	styleElement    = template.HTML("<style>" + style + "</style>")
	libraryElement  = template.HTML("<script>" + library + "</script>")
	scriptElement   = template.HTML("<script>" + pageJS + "</script>")
	securityElement = template.HTML(`<meta http-equiv="Content-Security-Policy" ` +
		`content="default-src 'none'; base-uri 'none'; form-action 'none'; ` +
		"script-src " + hash(library) + " " + hash(pageJS) + "; style-src " + hash(style) + `">`)
)

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Write writes p as one HTML page. It fails if p has more than two Variants, if a
// part of it does not have one entry for each, or if w fails.
func Write(w io.Writer, p Page) error {
	if err := check(p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	v := view{
		Page: p, Security: securityElement, Style: styleElement, Library: libraryElement,
		Script: scriptElement, Named: p.Variants,
	}
	if len(v.Named) == 0 {
		v.Named = []string{"admitted"}
	}
	var d data
	v.addTimeline(&d)
	v.addShares(&d)
	v.addFront(&d)
	v.addBars()
	v.addScatters()
	v.addSweep()
	for _, t := range p.Tables {
		switch {
		case len(t.Head)+len(t.Rows) == 0:
		case t.First:
			v.First = append(v.First, newGrid(t))
		default:
			v.Grids = append(v.Grids, newGrid(t))
		}
	}
	text, err := json.Marshal(plain(reflect.ValueOf(d))) // escapes <, >, &, U+2028 and U+2029
	if err != nil {
		return fmt.Errorf("report: charts' data: %w", err)
	}
	v.Data = template.HTML(`<script type="application/json" id="data">` + string(text) + `</script>`)

	var out bytes.Buffer // a page that fails half way is not begun
	if err := page.Execute(&out, v); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("report: write page: %w", err)
	}
	return nil
}

func check(p Page) error {
	if len(p.Variants) > 2 {
		return fmt.Errorf("%d variants, at most 2 can be compared", len(p.Variants))
	}
	want := max(1, len(p.Variants))
	if t := p.Timeline; t != nil {
		if !finite(t.Step) || t.Step <= 0 {
			return fmt.Errorf("timeline: a step of %v s", t.Step)
		}
		if len(t.Admitted) != want {
			return fmt.Errorf("timeline: admitted of %d variants instead of %d", len(t.Admitted), want)
		}
	}
	if p.Shares != nil {
		for i, process := range p.Shares.Processes {
			if len(process.Admitted) != want {
				return fmt.Errorf("process %d (%q): admitted of %d variants instead of %d",
					i, process.Name, len(process.Admitted), want)
			}
		}
	}
	for _, b := range p.Bars {
		for i, item := range b.Items {
			if len(item.Values) != want {
				return fmt.Errorf("%s %d (%q): values of %d variants instead of %d",
					b.Name, i, item.Name, len(item.Values), want)
			}
		}
	}
	return nil
}
