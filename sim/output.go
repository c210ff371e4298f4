package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
)

// schema is the version of the JSON documents: it goes up when a name in them
// changes its meaning or goes away.
const schema = 3

// head is what documents of all commands begin with.
type head struct {
	Schema      int    `json:"schema"`
	Command     string `json:"command"`
	Seed        uint64 `json:"seed"`
	Interrupted bool   `json:"interrupted"`
}

// document is all that a command has found.
type document struct {
	head
	// Answer is that of a question: a sentence.
	Answer string `json:"answer,omitempty"`

	// Note is how else the scenario of a question was played than it is written.
	Note string `json:"note,omitempty"`

	Variants []*variant `json:"variants"`

	// Differences are those of the second variant to the first, for compare:
	// paired, replication by replication.
	Differences map[string]measure.Interval `json:"differences,omitempty"`

	// Tuning is what tune makes of the variants.
	Tuning *tuning `json:"tuning,omitempty"`

	// Warnings are of policies that need more calls than a plain limiter.
	Warnings []string `json:"warnings,omitempty"`

	line string // the command line that makes it again
	over string // the setting that sweep varies
	text func(io.Writer, *document)
}

// outputs are the flags that say how to print a document.
type outputs struct {
	json bool
	html string
}

func newOutputs(set *flag.FlagSet) *outputs {
	o := &outputs{}
	set.BoolVar(&o.json, "json", false, "print everything as one JSON object")
	set.StringVar(&o.html, "html", "", "also write a page with charts to `FILE`; it needs no network")
	return o
}

func (o *outputs) check() error {
	if o.html == "" {
		return nil
	}
	// A file that cannot be written is better known before hours of work.
	if info, err := os.Stat(filepath.Dir(o.html)); err != nil {
		return fmt.Errorf("-html: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("-html: %s is no folder", filepath.Dir(o.html))
	}
	if info, err := os.Stat(o.html); err == nil && info.IsDir() {
		return fmt.Errorf("-html: %s is a folder", o.html)
	}
	return nil
}

// commandLine is what was typed, as it can be typed again.
func commandLine(command string, args []string) string {
	words := []string{"go run ./sim", command}
	for _, a := range args {
		if a == "" || strings.ContainsFunc(a, special) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// special reports whether a shell may make something else of r.
func special(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_=./,:+%@", r)
}

// document is one of a command that plays these variants.
func (s *settings) document(
	args []string, text func(io.Writer, *document), variants ...*variant,
) *document {
	return &document{head: head{schema, s.set.Name(), s.seed, false}, Variants: variants,
		line: commandLine(s.set.Name(), args), text: text}
}

// vary adds a variant: the scenario of the command line with settings changed.
func (d *document) vary(
	ctx context.Context, s *settings, label, settings string, stderr io.Writer,
) error {
	changed, err := change(ctx, s.written, settings, stderr)
	d.Variants = append(d.Variants, &variant{Label: label, Scenario: changed})
	return err
}

// play plays the variants, lets conclude look at them, warns of what is dear, and prints. After an
// interrupt the figures are of what was simulated until then, if that is enough to conclude.
func (d *document) play(
	ctx context.Context, s *settings, stdout, stderr io.Writer, conclude func(),
) error {
	played := play(ctx, d.Variants, s.seed, s.replications, stderr)
	all := len(d.Variants)
	d.Variants = slices.DeleteFunc(d.Variants, func(v *variant) bool { return len(v.Results) == 0 })
	if n := len(d.Variants); n == 0 || n < all && conclude != nil {
		return played
	}
	if conclude != nil {
		conclude()
	}
	if d.Interrupted = played != nil; !d.Interrupted {
		if err := d.warnOfDear(ctx); err != nil {
			return err
		}
	}
	return errors.Join(s.out.write(stdout, d), played)
}

// write prints the document as the flags say.
func (o *outputs) write(w io.Writer, d *document) error {
	var err error
	if o.html != "" {
		err = writeFile(o.html, func(w io.Writer) error { return writePage(w, d) })
	}
	if o.json {
		if d.Tuning != nil { // hundreds of timelines would be most of the document
			for _, v := range d.Variants {
				for _, r := range v.Results {
					r.Timeline, r.Processes, r.Keys.List = engine.Timeline{}, nil, nil
				}
			}
		}
		return errors.Join(err, writeJSON(w, d))
	}
	d.text(w, d)
	for _, warning := range d.Warnings {
		fmt.Fprintf(w, "\nWARNING: %s\n", warning)
	}
	return err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
