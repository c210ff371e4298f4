package rules_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// A folder with one file, and three requests of a user. With Redis the store is
// remote.New(client).
func Example() {
	folder, err := os.MkdirTemp("", "rules")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "shop.yaml")
	err = os.WriteFile(file, []byte(`
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 2}
`), 0o600)
	if err != nil {
		panic(err)
	}
	limiter, err := rules.New(hybrid.NewMemory(), rules.Files(folder), rules.Config{})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())
	for range 3 {
		result, err := limiter.Take(context.Background(), "shop", rules.Of("user", "ann"))
		if err != nil {
			panic(err)
		}
		fmt.Println(result.Allowed)
	}
	// Output:
	// true
	// true
	// false
}

// fixed is a Source that never changes.
type fixed string

func (f fixed) Load(context.Context) ([]rules.Document, string, error) {
	return []rules.Document{{Name: "shop.yaml", Text: []byte(f)}}, "", nil
}

func (f fixed) Wait(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// example is the limiter of the examples below.
func example() *rules.Limiter {
	limiter, err := rules.New(hybrid.NewMemory(), fixed(`
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: user
    value: root
    rate_limit: {unlimited: true}
  - key: path
    value: /search*
    rate_limit: {unit: minute, requests_per_unit: 1}
`), rules.Config{})
	if err != nil {
		panic(err)
	}
	return limiter
}

func ExampleLimiter_Take() {
	limiter := example()
	defer limiter.Close(context.Background())
	for range 2 {
		result, err := limiter.Take(context.Background(), "shop",
			rules.Of("user", "ann"), rules.Of("path", "/search/books"), rules.Of("country", "fr"))
		if err != nil {
			panic(err)
		}
		fmt.Println("allowed:", result.Allowed, "denied by:", result.Denied)
		for _, s := range result.Each {
			fmt.Printf("  %v %q remaining %d\n", s.State, s.Rule, s.Decision.Remaining)
		}
	}
	// Output:
	// allowed: true denied by: -1
	//   limited "user" remaining 2
	//   limited "path=/search*" remaining 0
	//   not configured "" remaining 0
	// allowed: false denied by: 1
	//   limited "user" remaining 2
	//   limited "path=/search*" remaining 0
	//   not configured "" remaining 0
}

func ExampleLimiter_Stats() {
	limiter := example()
	defer limiter.Close(context.Background())
	for range 4 {
		if _, err := limiter.Take(context.Background(), "shop", rules.Of("user", "ann")); err != nil {
			panic(err)
		}
	}
	stats := limiter.Stats()
	user := stats.Domains[0].Rules[0]
	fmt.Println(user.Path, "admitted", user.Admitted, "denied", user.Denied)
	fmt.Println("changes:", stats.Source.Changes, "error:", stats.Source.Err)
	// Output:
	// user admitted 3 denied 1
	// changes: 1 error: <nil>
}

func ExampleLimiter_Rules() {
	limiter := example()
	defer limiter.Close(context.Background())
	for _, domain := range limiter.Rules().Domains() {
		for _, rule := range domain.Rules {
			fmt.Println(domain.Name, rule)
		}
	}
	// Output:
	// shop user: 3/day by the calendar
	// shop user=root: unlimited
	// shop path=/search*: 1/minute
}

func ExampleParse() {
	_, err := rules.Parse(rules.Document{Name: "shop.yaml", Text: []byte(`domain: shop
descriptors:
  - key: user
    rate_limit: {unit: mintue, requests_per_unit: 5}
`)})
	fmt.Println(strings.ReplaceAll(err.Error(), ": unknown", ":\nunknown"))
	// Output:
	// rules: shop.yaml:4:24: descriptors[0].rate_limit.unit:
	// unknown unit "mintue": "minute" is the nearest one
}

func ExampleError() {
	_, err := rules.Parse(rules.Document{Name: "shop.yaml", Text: []byte("domain: [shop]")})
	if mistake, ok := errors.AsType[*rules.Error](err); ok {
		fmt.Println(mistake.Line, mistake.Column, mistake.Path, mistake.Text)
	}
	// Output: 1 9 domain a list is not a text
}

func ExampleRules_Explain() {
	limiter := example()
	defer limiter.Close(context.Background())
	each, err := limiter.Rules().Explain("shop", rules.Of("user", "ann"), rules.Of("user", "root"))
	if err != nil {
		panic(err)
	}
	for _, e := range each {
		fmt.Println(e.State, "|", e.Rule, "|", e.Key)
	}
	// Output:
	// limited | user: 3/day by the calendar | rules.shop:user=ann
	// unlimited | user=root: unlimited |
}

func ExampleRules_Domain() {
	limiter := example()
	defer limiter.Close(context.Background())
	shop, ok := limiter.Rules().Domain("shop")
	fmt.Println(shop.Name, len(shop.Rules), ok)
	_, ok = limiter.Rules().Domain("other")
	fmt.Println(ok)
	// Output:
	// shop 3 true
	// false
}

func ExampleRules_Notes() {
	r, err := rules.Parse(rules.Document{Name: "shop.yaml", Text: []byte(
		"domain: shop\ndescriptors: [{key: user, detailed_metric: true}]")})
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.Replace(r.Notes()[0], ": it", ":\nit", 1))
	// Output:
	// shop.yaml:2:44: descriptors[0].detailed_metric:
	// it has no effect: figures are by rule, and never by value
}

func ExampleFiles() {
	_, _, err := rules.Files("no-such-folder").Load(context.Background())
	fmt.Println(err)
	// Output: rules: stat no-such-folder: no such file or directory
}

func ExampleDescriptor() {
	d := rules.Of("tenant", "42").And("user", "ann")
	d.Hits = 3 // tokens
	fmt.Println(d)
	// Output: tenant=42,user=ann
}

// A gateway looks when a request comes, and reports what it has cost when its stream has ended.
func ExampleDescriptor_used() {
	limiter := example()
	defer limiter.Close(context.Background())
	ann := rules.Of("user", "ann") // 3 a day
	for range 3 {
		look, err := limiter.Peek(context.Background(), "shop", ann)
		if err != nil {
			panic(err)
		}
		if !look.Allowed {
			fmt.Println("denied: there is a debt")
			continue
		}
		report := ann
		report.Hits, report.Used = 2, true // known by now
		taken, err := limiter.Take(context.Background(), "shop", report)
		if err != nil {
			panic(err)
		}
		fmt.Println("served, within the limit:", taken.Allowed)
	}
	// Output:
	// served, within the limit: true
	// served, within the limit: false
	// denied: there is a debt
}

// A request brings its own limit. There need not be a rule.
func ExampleDescriptor_limit() {
	limiter := example()
	defer limiter.Close(context.Background())
	guest := rules.Of("guest", "192.0.2.1")
	guest.Limit = hybrid.Quota(1, hybrid.Day)
	for range 2 {
		result, err := limiter.Take(context.Background(), "shop", guest)
		if err != nil {
			panic(err)
		}
		fmt.Println(result.Allowed, result.Each[0].State, result.Each[0].Decision.Limit)
	}
	// Output:
	// true limited 1/day
	// false limited 1/day
}

func ExampleParsePath() {
	entries, err := rules.ParsePath(`tenant=42,path="/a,b",user`)
	fmt.Printf("%q %v\n", entries, err)
	fmt.Println(rules.PathOf(entries...))
	// Output:
	// [{"tenant" "42"} {"path" "/a,b"} {"user" ""}] <nil>
	// tenant=42,path="/a,b",user
}

func ExampleLimiter_Peek() {
	limiter := example()
	defer limiter.Close(context.Background())
	for range 2 {
		result, err := limiter.Peek(context.Background(), "shop", rules.Of("user", "ann"))
		if err != nil {
			panic(err)
		}
		fmt.Println(result.Allowed, result.Each[0].Decision.Remaining)
	}
	// Output:
	// true 3
	// true 3
}

// A request has failed before it did any work, and its caller wants the tokens back.
func ExampleLimiter_Refund() {
	limiter := example()
	defer limiter.Close(context.Background())
	for range 12 {
		own := rules.Of("user", "bob")
		own.Limit = hybrid.Sliding(20, time.Minute)
		if _, err := limiter.Take(context.Background(), "shop", own); err != nil {
			panic(err)
		}
	}
	own := rules.Of("user", "bob")
	own.Limit, own.Hits = hybrid.Sliding(20, time.Minute), 3
	before := left(limiter, own)
	fmt.Println(limiter.Refund("shop", own))
	fmt.Println(left(limiter, own) - before)
	// Output:
	// <nil>
	// 3
}
