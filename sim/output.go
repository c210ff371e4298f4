package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
)

// schema is the version of the JSON documents: it goes up when a name in them
// changes its meaning or goes away.
const schema = 3

// document is all that a command has found.
type document struct {
	Schema      int    `json:"schema"`
	Command     string `json:"command"`
	Seed        uint64 `json:"seed"`
	Interrupted bool   `json:"interrupted"`

	// Answer is that of a question: a sentence.
	Answer string `json:"answer,omitempty"`

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
}

// outputs are the flags that say how to print a document.
type outputs struct {
	json, csv bool
	html      string
}

func (s *settings) outputFlags() *outputs {
	o := &outputs{}
	s.set.BoolVar(&o.json, "json", false, "print everything as one JSON object")
	s.set.BoolVar(&o.csv, "csv", false, "print a line for each replication, as CSV")
	s.set.StringVar(&o.html, "html", "",
		"also write a page with charts to `FILE`; it needs no network")
	return o
}

func (o *outputs) check() error {
	if o.json && o.csv {
		return errors.New("-json and -csv: one of them")
	}
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

func (s *settings) replicationsFlag(n int) *int {
	return s.set.Int("replications", n, "play `N` times, with different random numbers")
}

func atLeast(name string, n, least int) error {
	if n < least || n > 10_000 {
		return fmt.Errorf("invalid value \"%d\" for flag -%s: want %d to 10000", n, name, least)
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

// finish warns of what has been found and prints it. The error is that of the plays: after an
// interrupt the figures are of what was simulated until then.
func (d *document) finish(
	ctx context.Context, played error, o *outputs, w io.Writer, text func(io.Writer, *document),
) error {
	if d.Interrupted = played != nil; !d.Interrupted {
		if err := d.warnOfDear(ctx); err != nil {
			return err
		}
	}
	return errors.Join(o.write(w, d, text), played)
}

// write prints the document as the flags say.
func (o *outputs) write(w io.Writer, d *document, text func(io.Writer, *document)) error {
	d.Schema = schema
	var err error
	if o.html != "" {
		err = writeFile(o.html, func(w io.Writer) error { return writePage(w, d) })
	}
	switch {
	case o.json:
		if d.Tuning != nil { // hundreds of timelines would be most of the document
			for _, v := range d.Variants {
				for _, r := range v.Results {
					r.Timeline, r.Processes, r.Keys.List = engine.Timeline{}, nil, nil
				}
			}
		}
		return errors.Join(err, writeJSON(w, d))
	case o.csv:
		return errors.Join(err, writeCSV(w, d))
	}
	text(w, d)
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

// writeCSV writes a line for each replication of each variant: all of a Result
// that is a single number, by its JSON name.
func writeCSV(w io.Writer, d *document) error {
	c := csv.NewWriter(w)
	head := []string{"scenario", "variant", "seed"}
	names, _ := scalars(reflect.ValueOf(engine.Result{}), "")
	if err := c.Write(append(head, names...)); err != nil {
		return err
	}
	for _, v := range d.Variants {
		for _, r := range v.Results {
			_, values := scalars(reflect.ValueOf(*r), "")
			row := append([]string{v.Scenario.Name, v.Label, strconv.FormatUint(d.Seed, 10)}, values...)
			if err := c.Write(row); err != nil {
				return err
			}
		}
	}
	c.Flush()
	return c.Error()
}

// scalars are the single numbers of a struct, with those of structs in it.
func scalars(v reflect.Value, prefix string) (names, values []string) {
	for i := range v.NumField() {
		name := prefix + v.Type().Field(i).Tag.Get("json")
		switch f := v.Field(i); f.Kind() {
		case reflect.Int, reflect.Int64:
			names, values = append(names, name), append(values, strconv.FormatInt(f.Int(), 10))
		case reflect.Float64:
			names, values = append(names, name), append(values, strconv.FormatFloat(f.Float(), 'g', -1, 64))
		case reflect.Struct:
			if f.Type() != reflect.TypeFor[engine.Timeline]() {
				n, x := scalars(f, name+".")
				names, values = append(names, n...), append(values, x...)
			}
		}
	}
	return names, values
}
