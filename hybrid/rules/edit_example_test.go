package rules_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/redisrules"
)

// exampleBook is a book in a Redis of the example's own.
func exampleBook() (book rules.Book, done func()) {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	book, err = redisrules.New(rdb, "example")
	if err != nil {
		log.Fatal(err)
	}
	return book, func() { rdb.Close(); server.Close() }
}

func ExampleSetRule() {
	text := []byte("domain: shop\ndescriptors:\n  - key: user # by id\n" +
		"    rate_limit: {unit: minute, requests_per_unit: 5}\n")
	text, err := rules.SetRule(text, "user",
		[]byte("rate_limit: {unit: minute, requests_per_unit: 7}"))
	if err != nil {
		log.Fatal(err)
	}
	text, err = rules.SetRule(text, "user,path=/upload",
		[]byte("rate_limit: {unit: hour, requests_per_unit: 10}"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", text)
	// Output:
	// domain: shop
	// descriptors:
	//   - key: user # by id
	//     rate_limit: {unit: minute, requests_per_unit: 7}
	//     descriptors:
	//       - key: path
	//         value: /upload
	//         rate_limit: {unit: hour, requests_per_unit: 10}
}

func ExampleSetLimit() {
	text := []byte("domain: shop\ndescriptors:\n  - key: user\n    shadow_mode: true\n" +
		"    rate_limit: {unit: minute, requests_per_unit: 5, name: users}\n")
	text, err := rules.SetLimit(text, "user", []byte("{unit: hour, requests_per_unit: 100}"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", text)
	// Output:
	// domain: shop
	// descriptors:
	//   - key: user
	//     shadow_mode: true
	//     rate_limit: {unit: hour, requests_per_unit: 100, name: users}
}

func ExampleDeleteRule() {
	text := []byte("domain: shop\ndescriptors:\n" +
		"  - {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}\n" +
		"  - {key: ip, rate_limit: {unit: second, requests_per_unit: 50}}\n")
	text, err := rules.DeleteRule(text, "ip")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", text)
	// Output:
	// domain: shop
	// descriptors:
	//   - {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}
}

func ExampleDiff() {
	parse := func(limit string) *rules.Rules {
		r, err := rules.Parse(rules.Document{Name: "shop.yaml", Text: []byte(
			"domain: shop\ndescriptors:\n  - {key: user, rate_limit: " + limit + "}\n")})
		if err != nil {
			log.Fatal(err)
		}
		return r
	}
	was := parse("{unit: minute, requests_per_unit: 5}")
	is := parse("{unit: minute, requests_per_unit: 5, burst: 20}")
	for _, d := range rules.Diff(was, is) {
		fmt.Println(d)
	}
	// Output: shop user: 5/minute -> 5/minute burst 20
}

func ExampleDifference() {
	fmt.Println(rules.Difference{Domain: "shop", Path: "user", Is: "5/minute"})
	// Output: shop user: none -> 5/minute
}

func ExampleSave() {
	book, done := exampleBook()
	defer done()
	c := rules.Change{
		Domain: "shop", Author: "ann@example.org", Reason: "uploads are dear",
		Text: []byte("domain: shop\ndescriptors:\n" +
			"  - {key: upload, rate_limit: {unit: minute, requests_per_unit: 5}}\n"),
	}
	revision, differences, err := rules.Save(context.Background(), book, c)
	fmt.Println(revision.Version, differences, err)

	c.Author, c.Text = "bob@example.org", []byte("domain: shop") // not knowing of ann's
	_, _, err = rules.Save(context.Background(), book, c)
	fmt.Println(errors.Is(err, rules.ErrConflict))
	// Output:
	// 1 [shop: none -> domain shop upload: none -> 5/minute] <nil>
	// true
}

func ExampleRollBack() {
	book, done := exampleBook()
	defer done()
	ctx := context.Background()
	for base, n := range []int{5, 500} {
		_, _, err := rules.Save(ctx, book, rules.Change{
			Domain: "shop", Base: int64(base), Author: "ann@example.org", Reason: "load",
			Text: fmt.Appendf(nil, "domain: shop\ndescriptors:\n"+
				"  - {key: user, rate_limit: {unit: second, requests_per_unit: %d}}\n", n),
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	r, differences, err := rules.RollBack(ctx, book, "shop", 1, "bob@example.org", "500 was too many")
	fmt.Println(r.Version, differences, err)
	history, err := book.History(ctx, "shop", 0, 10)
	for _, r := range history {
		fmt.Println(r.Version, r.Author, r.Reason)
	}
	fmt.Println(err)
	// Output:
	// 3 [shop user: 500/second -> 5/second] <nil>
	// 3 bob@example.org 500 was too many
	// 2 ann@example.org load
	// 1 ann@example.org load
	// <nil>
}
