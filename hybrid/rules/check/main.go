// Command check validates files of rules, and shows what requests would be limited by.
//
//	go run ./hybrid/rules/check rules/
//	go run ./hybrid/rules/check -domain shop -descriptor user=bob rules/
//
// It prints all mistakes with file, line and column. The exit code is 0 if there are none, 1 if
// there are some or a file cannot be read, and 2 if the command itself makes no sense.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/seed13b07268/ration/hybrid/rules"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

const usage = `check validates files of rules, and shows what requests would be limited by.

	check [-domain NAME -descriptor KEY=VALUE,KEY=VALUE ...] FILE|FOLDER ...

`

// paths are the values of -descriptor.
type paths []rules.Descriptor

// String is part of flag.Value.
func (p *paths) String() string { return "" }

// Set is part of flag.Value.
func (p *paths) Set(text string) error {
	entries, err := rules.ParsePath(text)
	*p = append(*p, rules.Descriptor{Entries: entries})
	return err
}

// run returns the exit code.
func run(args []string, out, fail io.Writer) int {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(fail)
	flags.Usage = func() {
		fmt.Fprint(fail, usage)
		flags.PrintDefaults()
	}
	domain := flags.String("domain", "", "the `NAME` of the domain of a request; "+
		"may be left out if there is one")
	var descriptors paths
	flags.Var(&descriptors, "descriptor", "a descriptor of the request, as `KEY=VALUE,KEY=VALUE`; "+
		"say it again for each")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if flags.NArg() == 0 || *domain != "" && descriptors == nil {
		flags.Usage()
		return 2
	}
	docs, _, err := rules.Files(flags.Args()...).Load(context.Background())
	if err != nil {
		fmt.Fprintln(fail, err)
		return 1
	}
	r, err := rules.Parse(docs...)
	if err != nil {
		fmt.Fprintln(fail, err)
		return 1
	}
	for _, note := range r.Notes() {
		fmt.Fprintln(fail, "note:", note)
	}
	if descriptors == nil {
		list(out, r)
		return 0
	}
	return explain(out, fail, r, *domain, descriptors)
}

// list prints all rules.
func list(out io.Writer, r *rules.Rules) {
	for _, d := range r.Domains() {
		fmt.Fprintf(out, "domain %s: %d rules\n", d.Name, len(d.Rules))
		for _, rule := range d.Rules {
			fmt.Fprintf(out, "  %s:%d: %v\n", rule.File, rule.Line, rule)
		}
	}
}

// explain prints what a request would be limited by.
func explain(
	out, fail io.Writer, r *rules.Rules, domain string, descriptors []rules.Descriptor,
) int {
	all := r.Domains()
	if domain == "" && len(all) > 1 {
		fmt.Fprintf(fail, "check: there are %d domains: say which one by -domain\n", len(all))
		return 2
	}
	if domain == "" {
		domain = all[0].Name
	}
	if _, ok := r.Domain(domain); !ok {
		fmt.Fprintf(fail, "check: there is no domain %q\n", domain)
		return 1
	}
	each, err := r.Explain(domain, descriptors...)
	if err != nil {
		fmt.Fprintln(fail, err)
		return 2
	}
	for i, e := range each {
		fmt.Fprintf(out, "%v: %v", descriptors[i], e.State)
		if e.Rule.Path != "" {
			fmt.Fprintf(out, " by %s:%d: %v", e.Rule.File, e.Rule.Line, e.Rule)
		}
		if e.Key != "" {
			fmt.Fprintf(out, "\n  limit %v, key %s", e.Limit, e.Key)
		}
		if e.Class != "" {
			fmt.Fprintf(out, ", class %q", e.Class)
		}
		fmt.Fprintln(out)
	}
	return 0
}
