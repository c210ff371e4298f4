package rules_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// A ban is in force in each process that follows the book, and ends by itself.
func ExampleSetBan() {
	book, done := exampleBook()
	defer done()
	ctx := context.Background()
	_, _, err := rules.Save(ctx, book, rules.Change{
		Domain: "shop", Author: "ann", Reason: "opening", Text: []byte("domain: shop\n" +
			"descriptors: [{key: address, rate_limit: {unit: second, requests_per_unit: 5}}]\n"),
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = rules.SetBan(ctx, book, "shop", rules.Ban{
		Entries: rules.Of("address", "203.0.113.0/24").Entries,
		Until:   time.Now().Add(time.Hour), Reason: "scrapes the catalogue", Author: "ann",
	})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := rules.New(hybrid.NewMemory(), book, rules.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(ctx)
	address := netip.MustParseAddr("203.0.113.7").String()
	result, err := limiter.Take(ctx, "shop", rules.Of("address", address))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Allowed, result.Each[0].State, result.Each[0].Ban.Reason)
	// Output: false banned scrapes the catalogue
}

func ExampleLiftBan() {
	book, done := exampleBook()
	defer done()
	ctx, user := context.Background(), rules.Of("user", "ann").Entries
	_, err := rules.SetBan(ctx, book, "shop", rules.Ban{
		Entries: user, Until: time.Now().Add(time.Hour), Reason: "abuse", Author: "ed",
	})
	if err != nil {
		log.Fatal(err)
	}
	list, err := rules.BansOf(ctx, book, "shop")
	fmt.Println(list[0], list[0].Reason, err)
	_, err = rules.LiftBan(ctx, book, "shop", user, "ed", "a mistake")
	fmt.Println(err)
	list, err = rules.BansOf(ctx, book, "shop")
	fmt.Println(len(list), err)
	// Output:
	// user=ann abuse <nil>
	// <nil>
	// 0 <nil>
}

func ExampleRules_Banned() {
	set, err := rules.Parse(
		rules.Document{Text: []byte("domain: shop\ndescriptors: []\n")},
		rules.Document{Text: []byte("domain: shop\nbans:\n" +
			"- {descriptor: user=ann, until: 2026-12-01T12:00:00Z, reason: abuse}\n")},
	)
	if err != nil {
		log.Fatal(err)
	}
	for _, hour := range []int{11, 12} {
		at := time.Date(2026, 12, 1, hour, 0, 0, 0, time.UTC)
		ban, banned := set.Banned("shop", at, rules.Of("user", "ann").And("path", "/"))
		fmt.Println(banned, ban.Reason)
	}
	// Output:
	// true abuse
	// false
}
