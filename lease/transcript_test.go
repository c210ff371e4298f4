package lease_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestTranscripts plays the scripts in testdata: conversations of a Ledger with a few
// Holders, in virtual time. Each is there to be read; testdata/README.md has the order.
//
// In a script a line that begins with "> " is a command. The lines below it, up to the next
// command, comment or empty line, are what it prints. The test fails when that differs;
//
//	go test ./lease -run TestTranscripts -update
//
// writes it anew. The invariants are checked after each event, whatever is printed.
//
// (github.com/cockroachdb/datadriven, which raft uses, was not taken: it would put two
// modules into the go.mod of a library, for tests alone, where these fifty lines do. It
// also wants a "----" and an empty line for each command, which doubles the length.)
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			played, err := play(string(text))
			if err != nil {
				t.Fatalf("%s:%v", file, err)
			}
			if played == string(text) {
				return
			}
			if *lease.Update {
				if err := os.WriteFile(file, []byte(played), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			was, is := strings.Split(string(text), "\n"), strings.Split(played, "\n")
			n := 0
			for n < len(was) && n < len(is) && was[n] == is[n] {
				n++
			}
			line := func(all []string) string {
				if n < len(all) {
					return all[n]
				}
				return "(the end)"
			}
			t.Errorf("%s:%d: differs; -update writes it anew\n- %s\n+ %s", file, n+1, line(was), line(is))
		})
	}
}

// longestLine is how many columns a script may have.
const longestLine = 100

// play returns the script with the outputs that it has now.
func play(script string) (string, error) {
	if !strings.HasPrefix(script, "# ") {
		return "", fmt.Errorf("1: the first line does not say what is to be learnt")
	}
	c := conversation{now: epoch, ledger: new(lease.Ledger), fates: map[string]fate{}}
	c.low = math.Inf(1)
	var played strings.Builder
	for i, line := range strings.Split(strings.TrimSuffix(script, "\n"), "\n") {
		command, ok := strings.CutPrefix(line, "> ")
		switch {
		case len(line) > longestLine:
			return "", fmt.Errorf("%d: longer than %d columns", i+1, longestLine)
		case !ok && line != "" && line[0] != '#':
			continue // an old output
		}
		played.WriteString(line + "\n")
		if !ok {
			continue
		}
		c.out.Reset()
		if err := c.command(strings.Fields(command)); err != nil {
			return "", fmt.Errorf("%d: %s: %w", i+1, command, err)
		}
		played.WriteString(c.out.String())
		if c.err != nil {
			return "", fmt.Errorf("%d: %s: at %s: %w\n%s", i+1, command, c.stamp(c.now), c.err,
				played.String())
		}
	}
	for message := range c.fates {
		return "", fmt.Errorf("the end: no %s came to be dropped, delayed or repeated", message)
	}
	return played.String(), nil
}

// command plays one line of a script.
//
//	limit 100/s burst 100          all declare it, from their next request on
//	limit a 50/s burst 50          one holder does
//	quota 300 each 1s              all declare a quota
//	slots 10                       all declare slots
//	acquire a 2                    a job wants 2 slots, and waits for them
//	release a                      the job that began first is done
//	sliding 300 in 1s              all declare a sliding window
//	holder a b                     processes start
//	take a 5                       a caller asks for 5 tokens, and this plays until its verdict
//	wait a 5 for 2s                a caller asks for 5 tokens and would wait for 2 s
//	reserve a 5                    the same for a job whose cost is known later
//	settle a 3                     the first job of a that has reserved has cost 3 tokens
//	cancel a                       it was not done
//	load a 100/s b 20/s for 1s     callers ask for a token each, evenly spaced
//	advance 250ms                  time passes
//	drop request a                 the next request of a is lost; or reply
//	delay reply a 300ms            the next reply to a takes so much longer; or request
//	repeat request a 300ms         the next request of a also arrives a second time; or reply
//	store down                     all messages are lost, until: store up
//	crash a                        its process is gone, without a word
//	quit a                         its process hands back what it holds, and ends
//	forget                         the ledger's state is lost
//	show                           the ledger
//	show a                         what a holder knows
//
// After load and advance, "quietly" shows no messages, and "only a" those of one holder.
func (c *conversation) command(words []string) error {
	a := arguments{c: c, words: words}
	n := len(words)
	if c.quiet = n > 0 && words[n-1] == "quietly"; c.quiet {
		a.words = words[:n-1]
	} else if c.quiet = n > 1 && words[n-2] == "only"; c.quiet {
		a.words, c.only = words[:n-2], words[n-1]
	}
	if c.quiet {
		c.unseen = 0
		defer func() {
			c.quiet, c.only = false, ""
			c.tell("(%d messages not shown)", c.unseen)
		}()
	}
	var do func()
	switch verb := a.next(); verb {
	case "limit":
		to, all := c.speakers, len(a.words) < 4
		if !all {
			to = []*speaker{a.holder()}
		}
		limit := lease.Limit{Rate: a.rate()}
		a.expect("burst")
		limit.Burst = int64(a.number())
		do = func() { c.declare(limit, to, all) }
	case "quota":
		limit := lease.Limit{Kind: lease.KindQuota, Burst: int64(a.number())}
		a.expect("each")
		limit.Window = a.duration()
		do = func() { c.declare(limit, c.speakers, true) }
	case "slots":
		limit := slots(int64(a.number()))
		do = func() { c.declare(limit, c.speakers, true) }
	case "acquire":
		s, n := a.holder(), a.number()
		do = func() { c.acquire(s, n) }
	case "release":
		s := a.holder()
		do = func() { c.release(s) }
	case "sliding":
		limit := lease.Limit{Kind: lease.KindSliding, Burst: int64(a.number())}
		a.expect("in")
		limit.Window = a.duration()
		do = func() { c.declare(limit, c.speakers, true) }
	case "holder":
		ids := a.words
		a.words = nil
		do = func() { c.start(ids) }
	case "take":
		s, n := a.holder(), a.number()
		do = func() { c.take(s, n) }
	case "reserve":
		s, n := a.holder(), a.number()
		do = func() { c.reserve(s, n) }
	case "settle":
		s, n := a.holder(), a.number()
		do = func() { c.settle(s, n) }
	case "cancel":
		s := a.holder()
		do = func() { c.settle(s, 0) }
	case "wait":
		s, n := a.holder(), a.number()
		a.expect("for")
		d := a.duration()
		do = func() { c.ask(s, n, d, false) }
	case "load":
		var loads []load
		for len(a.words) > 2 {
			loads = append(loads, load{a.holder(), time.Duration(1e9 / a.rate())})
		}
		a.expect("for")
		d := a.duration()
		do = func() { c.load(loads, d) }
	case "advance":
		d := a.duration()
		do = func() { c.advance(d) }
	case "drop", "delay", "repeat":
		kind, s := a.next(), a.holder()
		f := fate{lost: verb == "drop"}
		if verb == "delay" {
			f.late = a.duration()
		} else if verb == "repeat" {
			f.again = a.duration()
		}
		if kind != "request" && kind != "reply" {
			a.fail("%q is not request or reply", kind)
		}
		do = func() { c.fates[kind+" "+s.id] = f }
	case "store":
		state := a.next()
		if state != "down" && state != "up" {
			a.fail("%q is not down or up", state)
		}
		do = func() { c.down = state == "down" }
	case "crash":
		s := a.holder()
		do = func() { c.leave(s) }
	case "quit":
		s := a.holder()
		do = func() {
			c.quit(s)
			c.leave(s)
		}
	case "forget":
		do = c.forget
	case "show":
		if do = c.showLedger; len(a.words) > 0 {
			s := a.holder()
			do = func() { c.showHolder(s) }
		}
	default:
		return fmt.Errorf("%q is no command", verb)
	}
	if len(a.words) > 0 {
		a.fail("%q is too much", a.words)
	}
	if a.err == nil {
		do()
	}
	return a.err
}

// arguments are what is left of a command, and the first error in it.
type arguments struct {
	c     *conversation
	words []string
	err   error
}

func (a *arguments) fail(format string, args ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(format, args...)
	}
}

func (a *arguments) next() string {
	if len(a.words) == 0 {
		a.fail("something is missing")
		return ""
	}
	word := a.words[0]
	a.words = a.words[1:]
	return word
}

func (a *arguments) expect(want string) {
	if word := a.next(); word != want {
		a.fail("%q is not %q", word, want)
	}
}

func (a *arguments) holder() *speaker {
	id := a.next()
	for _, s := range a.c.speakers {
		if s.id == id {
			return s
		}
	}
	a.fail("there is no holder %q", id)
	return new(speaker)
}

func (a *arguments) number() float64 {
	x, err := strconv.ParseFloat(a.next(), 64)
	if err != nil || x < 1 {
		a.fail("a number of tokens: %v, %w", x, err)
	}
	return x
}

func (a *arguments) rate() float64 {
	word := a.next()
	digits, ok := strings.CutSuffix(word, "/s")
	x, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || x <= 0 {
		a.fail("%q is not a rate like 100/s", word)
	}
	return x
}

func (a *arguments) duration() time.Duration {
	d, err := time.ParseDuration(a.next())
	if err != nil {
		a.fail("%w", err)
	}
	return d
}

// say prints a line with the time, unless that is not to be shown.
func (c *conversation) say(format string, args ...any) {
	if !c.quiet {
		c.tell(format, args...)
	}
}

// tell prints a line with the time.
func (c *conversation) tell(format string, args ...any) {
	c.print(phrases{fmt.Sprintf(format, args...)})
}

// print prints a line of phrases with the time. A long one goes on in the next.
func (c *conversation) print(all phrases) {
	const margin = 10
	line := fmt.Sprintf("%*s  %s", margin-2, c.stamp(c.now), all[0])
	for _, phrase := range all[1:] {
		if len(line)+1+len(phrase) > longestLine {
			c.out.WriteString(line + "\n")
			line = strings.Repeat(" ", margin+2)
		}
		line += " " + phrase
	}
	c.out.WriteString(line + "\n")
}

// stamp is a time of the conversation.
func (c *conversation) stamp(at time.Duration) string { return millis(at - epoch) }

// phrases are what a line says.
type phrases []string

func (p *phrases) add(format string, args ...any) {
	*p = append(*p, fmt.Sprintf(format, args...))
}

// number adds x with its name and unit, unless it is zero.
func (p *phrases) number(name string, x float64, unit string) {
	if text := number(x); text != "0" {
		p.add("%s %s%s", name, text, unit)
	}
}

// number is x with at most two decimals.
func number(x float64) string {
	text := strconv.FormatFloat(x, 'f', 2, 64)
	text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	if text == "-0" {
		return "0"
	}
	return text
}

func amount(n float64) string {
	if n == 1 {
		return "1 token"
	}
	return number(n) + " tokens"
}

// millis is d with at most one decimal.
func millis(d time.Duration) string {
	return number(math.Round(d.Seconds()*1e4)/10) + "ms"
}
