package live

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

var tags = regexp.MustCompile(`<[^>]*>|\s+`)

// says is what a fragment says, without tags.
func says(t *testing.T, l *Live, url string) string {
	t.Helper()
	status, text := get(t, l, url)
	if status != 200 {
		t.Errorf("%s: %d", url, status)
	}
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(text, " "))), " ")
}

// want checks that a text has others, and has none of those after "no: ".
func want(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		absent, no := strings.CutPrefix(part, "no: ")
		if strings.Contains(text, absent) == no {
			t.Errorf("%q in %s", part, text)
		}
	}
}

// takes asks so many times for a descriptor.
func takes(t *testing.T, l *rules.Limiter, n int, d rules.Descriptor) {
	t.Helper()
	for range n {
		synctest.Wait() // a shadow counts beside the request
		if _, err := l.Take(t.Context(), "d", d); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWouldBeDenied: the cell of a shadow has what it would have denied, of how many requests, and
// how many of those nobody knows of; that of a rule without a shadow has none.
func TestWouldBeDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		limiter := newLimiter(t, store, newBoard(`
domain: d
descriptors:
- {key: seen, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 10}}
- key: tried
  rate_limit: {unit: day, requests_per_unit: 2000}
  trial: {unit: day, requests_per_unit: 4, percent: 0}
- {key: plain, rate_limit: {unit: day, requests_per_unit: 1}}
`), hybrid.NewProcess(), "")
		l := New(limiter, store, Config{Log: quiet})
		run(t, l)
		synctest.Wait()
		takes(t, limiter, 1210, rules.Of("seen", "x"))
		takes(t, limiter, 30, rules.Of("tried", "x"))
		takes(t, limiter, 3, rules.Of("plain", "x"))
		time.Sleep(sampleEvery)
		synctest.Wait()
		want(t, says(t, l, "/live/d"),
			"seen 10/day by the calendar, shadow: it only counts 0/s 0 0/s 0 600/s 1,200 of 1,210 tried",
			"trial 4/day by the calendar for 0 % 15/s 30 0/s 0 13/s 26 of 30 plain",
			"plain 1/day by the calendar 0.5/s 1 1/s 2 – ")
	})
}

// TestStoreIsMemory: a service without Redis does not praise its store.
func TestStoreIsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := hybrid.NewMemory()
		limiter := newLimiter(t, memory, newBoard("domain: d"), hybrid.NewProcess(), "")
		for store, parts := range map[Store][]string{
			memory: {
				"Store memory of this process: no other shares the limits", "no: answers",
				"The store is the memory of this process",
			},
			&counting{Memory: memory}: {"Store answers", "as this process sees it: answers"},
		} {
			l := New(limiter, store, Config{Log: quiet})
			l.sample(0)
			want(t, says(t, l, "/live/d"), parts...)
		}
	})
}

// TestMostLimitedOfHowMany: a list of keys that is cut says of how many, and one that is whole does
// not.
func TestMostLimitedOfHowMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		limiter := newLimiter(t, store, newBoard("domain: d\ndescriptors: [{key: user, rate_limit: "+
			"{unit: day, requests_per_unit: 1}}]"), hybrid.NewProcess(), "")
		l := New(limiter, store, Config{Log: quiet})
		run(t, l)
		have := 0
		for _, step := range []struct {
			keys int
			says string
		}{
			{10, "no: most denied of"}, {17, "The 10 most denied of 17 keys. "},
			{300, "The 10 most denied of 128 keys or more. "},
		} {
			for ; have < step.keys; have++ {
				takes(t, limiter, 3, rules.Of("user", fmt.Sprint(have)))
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			want(t, says(t, l, "/live/d"), step.says)
		}
	})
}

// TestThisProcess: with several processes the page says what is of this one alone, which one that
// is, and which one each holder of a key is.
func TestThisProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		source := "domain: d\ndescriptors: [{key: user, rate_limit: {unit: minute, " +
			"requests_per_unit: 600}}]"
		var fleet []*rules.Limiter
		join := func(name string) {
			fleet = append(fleet, newLimiter(t, store, newBoard(source), hybrid.NewProcess(), name))
		}
		join("zoe/1")
		l := New(fleet[0], store, Config{Log: quiet})
		run(t, l)
		alone := []string{
			"Denied requests of this process alone", "Decisions are those of 1 of 2 processes",
			"By 1 of 2 processes, in each", "not in the sums",
		}
		time.Sleep(6 * time.Second)
		for _, part := range alone {
			want(t, says(t, l, "/live/d"), "no: "+part)
		}
		join("amy/2")
		for range 100 {
			for _, one := range fleet {
				takes(t, one, 4, rules.Of("user", "ann"))
			}
			time.Sleep(100 * time.Millisecond)
		}
		domain, key := says(t, l, "/live/d"), says(t, l, "/live/d/key?key=user%3Dann")
		want(t, domain, alone...)
		for i, one := range fleet {
			id := one.Stats().Domains[0].Limiter.ID
			row := []string{"zoe/1 this process " + id, "amy/2 " + id}[i]
			want(t, domain, row)
			want(t, key, row)
		}
		want(t, key, "Holders: 2")
	})
}

// TestLimitIsWrittenOneWay: a limit reads as in the document, wherever it stands. Its rate is
// beside it.
func TestLimitIsWrittenOneWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		source := newBoard(`
domain: d
descriptors:
- {key: user, rate_limit: {unit: minute, requests_per_unit: 600}}
- {key: address, transform: ip/64, rate_limit: {unit: second, requests_per_unit: 10, burst: 600}}
- {key: upload, rate_limit: {unit: hour, requests_per_unit: 3}}
`)
		limiter := newLimiter(t, store, source, hybrid.NewProcess(), "")
		l := New(limiter, store, Config{Log: quiet})
		run(t, l)
		bring := rules.Of("own", "x")
		bring.Limit = hybrid.PerMinute(120)
		for _, d := range []rules.Descriptor{
			rules.Of("user", "x"), rules.Of("address", "192.0.2.1"), rules.Of("upload", "x"), bring,
		} {
			takes(t, limiter, 700, d)
		}
		time.Sleep(sampleEvery)
		synctest.Wait()
		want(t, says(t, l, "/live/d"), "user 600/minute",
			"address 10/second burst 600, address by ip/64")
		for _, c := range []struct {
			query string
			parts []string
		}{
			{"descriptor=user%3Dx", []string{
				"Rule user , 600/minute.", "Limit in force 600/minute 10/s, burst 600",
			}},
			{"descriptor=address%3D192.0.2.1", []string{
				", 10/second burst 600.", "Limit in force 10/second burst 600 10/s, burst 600",
			}},
			{"descriptor=upload%3Dx", []string{
				"Rule upload , 3/hour.", "Limit in force 3/hour 3/hour, burst 3", "no: 0.000",
			}},
			{"key=own%3Dx!bucket/2/120/0s/0s", []string{
				"that requests bring: 120/minute.", "Limit in force 120/minute 2/s, burst 120",
			}},
		} {
			want(t, says(t, l, "/live/d/key?"+c.query), append(c.parts, "no: /s burst")...)
		}
	})
}
