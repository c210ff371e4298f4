package scenario_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/simtest"
)

// wantError holds that an error says all of these.
func wantError(t *testing.T, what string, err error, want ...string) {
	t.Helper()
	simtest.Refused(t, fmt.Sprintf("%.200s", what), err, want...)
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("%.200s: the error has several lines: %v", what, err)
	}
}

// A mistake gets an error that says where it is, and what.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"name: a\nfoo: 1", "line 2: field foo not found"},
		{"redis:\n  latency: 1ms\n  foo: 3", "line 3: field foo not found"},
		{"faults:\n  - {kind: crash, when: 1s}", "line 2: field when not found"},
		{"keys: 1\nname: a\nkeys: 2", "line 3: mapping key \"keys\" already defined at line 1"},
		{"name: a\nprocesses: many", "line 2: cannot construct !!str `many` into int"},
		{"processes: 1.5", "line 1"},
		{"processes: 99999999999999999999", "line 1"},
		{"burst: 99999999999999999999", "line 1"},
		{"name: a\nlimit: 1000", "line 2: \"1000\": want NUMBER/TIME"},
		{"limit: -1/s", "line 1"},
		{"limit: 0/s", "line 1"},
		{"limit: .inf/s", "line 1"},
		{"limit: 1e300/s", "line 1"},
		{"name: a\nwarmup: 5", "line 2: cannot construct !!int `5` into a duration with its unit"},
		{"warmup: 1d", "into a duration with its unit, such as 250ms"},
		{"duration: 1e300s", "into a duration"},
		{"[1, 2]", "line 1"},
		{"hello", "line 1"},
		{"a: b: c", "line 1: mapping values are not allowed"},
		{"name: a\nload: [\n", "line 3"},
		{"name: a\n---\nname: b", "expected single document"},
		{"name: \x00", "control characters"},
		{"name: [a]", "line 1"},
		{"load: *nobody", "nobody"},

		{"processes: -1", "processes -1 is not from 1 to 10000"},
		{"processes: 10001", "processes 10001"},
		{"burst: -1", "Burst -1"},
		{"burst: 4294967297", "Burst 4294967297"},
		{"keys: -1", "keys -1 is not from 1 to 1000000"},
		{"keys: 1000001", "keys 1000001"},
		{"key_skew: -1", "key_skew -1 is not from 0 to 100"},
		{"key_skew: .nan", "key_skew NaN"},
		{"key_skew: .inf", "key_skew +Inf"},
		{"duration: 1ns", "duration 1ns is not from 1ms"},
		{"duration: -5s", "duration -5s"},
		{"duration: 1001h", "duration 1001h"},
		{"warmup: -1s", "warmup -1s"},
		{"warmup: 30s", "warmup 30s is not from 0 to less than the duration 30s"},
		{"outage: perhaps", "outage perhaps is not share, deny, allow"},

		{"load: {offered: .nan}", "load: offered NaN"},
		{"load: {offered: -1}", "load: offered -1"},
		{"load: {offered: 1e7}", "load: offered 1e+07"},
		{"load: {offered: 1, rate: 3/s}", "offered, rate and clients: one of them"},
		{"load: {rate: 3/s, clients: {count: 1, think: 1s}}", "one of them"},
		{"load: {arrivals: sometimes}", "arrivals sometimes is not poisson, even, gamma"},
		{"load: {cv: 2}", "cv is for gamma arrivals, not for poisson"},
		{"load: {arrivals: gamma, cv: 0.05}", "cv 0.05 is not from 0.1 to 20"},
		{"load: {arrivals: gamma, cv: 21}", "cv 21"},
		{"load: {arrivals: gamma, cv: .nan}", "cv NaN"},
		{"load: {cost: 2, costs: [1]}", "cost and costs: one of them"},
		{"load: {cost: -1}", "cost -1 is not from 1 to 2^32"},
		{"load: {patience: -1s}", "load: patience -1s is not from 0 to 1000h"},
		{"load: {patience: 1001h}", "load: patience 1001h0m0s is not from 0 to 1000h"},
		{"load: {patience: 5}", "into a duration with its unit"},
		{"load: {cost: 4294967297}", "cost 4294967297"},
		{"load: {costs: [1, 0]}", "cost 0"},
		{"load: {costs: [1, 4294967297]}", "cost 4294967297"},
		{"load: {diurnal: {period: 1ms, low: 0}}", "diurnal.period 1ms is not from 10ms"},
		{"load: {diurnal: {period: -1s, low: 0}}", "diurnal.period -1s"},
		{"load: {diurnal: {period: 1s, low: 1.5}}", "diurnal.low 1.5 is not from 0 to 1"},
		{"load: {diurnal: {period: 1s, low: .nan}}", "diurnal.low NaN"},
		{"duration: 1000h\nload: {diurnal: {period: 10ms, low: 0}}", "diurnal.period 10ms passes 360000000 times in 1000h0m0s; at most 100000"},
		{"load: {flash: [{at: -1s, for: 1s, times: 2}]}", "flash at -1s"},
		{"load: {flash: [{at: 1s, for: 0s, times: 2}]}", "flash at 1s for 0s"},
		{"load: {flash: [{at: 1s, for: 2000000h, times: 2}]}", "flash at 1s for 2000000h"},
		{"load: {flash: [{at: 1s, for: 1s, times: -2}]}", "flash.times -2"},
		{"load: {flash: [{at: 1s, for: 1s, times: .nan}]}", "flash.times NaN"},
		{"load: {flash: [" + strings.Repeat("{at: 1s, for: 1s, times: 1},", 1001) + "]}", "1001 of them; at most 1000"},
		{"load: {clients: {count: 0, think: 1s}}", "clients.count 0 is not from 1 to 1000000"},
		{"load: {clients: {count: 1000001, think: 1s}}", "clients.count 1000001"},
		{"load: {clients: {count: 1, think: 0s}}", "clients.think 0s is not from 1µs to 1000h"},
		{"load: {clients: {count: 1, think: 2000000h}}", "clients.think 2000000h"},
		{"load: {clients: {count: 1, think: 1s}, diurnal: {period: 1s, low: 0}}", "diurnal and flash are for an open load"},
		{"load: {retry: {times: 0}}", "retry.times 0 is not from 1 to 100"},
		{"load: {retry: {times: 101}}", "retry.times 101"},
		{"load: {retry: {times: 1, after: -1s}}", "retry.after -1s"},
		{"load: {retry: {times: 1, after: 2000000h}}", "retry.after 2000000h"},
		{"load: {trace: {file: \"\"}}", "load.trace: no log is named (load.trace.file, -trace)"},
		{"load: {trace: {speedup: 10}}", "load.trace: no log is named (load.trace.file, -trace)"},

		{"balance: {by: luck}", "balance: by luck is not random, round-robin, least-outstanding, sticky or own"},
		{"balance: {by: round-robin, skew: 1}", "weights, skew and moves are for random and own, not for round-robin"},
		{"balance: {by: sticky, moves: 1s}", "not for sticky"},
		{"processes: 2\nbalance: {weights: [1, 2], skew: 1}", "weights and skew: one of them"},
		{"processes: 3\nbalance: {weights: [1, 2]}", "weights: 2 for 3 processes"},
		{"processes: 2\nbalance: {weights: [1, -2]}", "weights -2"},
		{"processes: 2\nbalance: {weights: [1, .nan]}", "weights NaN"},
		{"processes: 2\nbalance: {weights: [1, .inf]}", "weights +Inf"},
		{"processes: 2\nbalance: {weights: [0, 0]}", "weights are all 0"},
		{"balance: {skew: -1}", "skew -1 is not from 0 to 100"},
		{"balance: {skew: .nan}", "skew NaN"},
		{"balance: {moves: -1s}", "moves -1s is not from 1ms"},
		{"balance: {moves: 1ns}", "moves 1ns is not from 1ms"},
		{"duration: 1000h\nbalance: {moves: 1ms}", "moves 1ms passes 3600000000 times"},
		{"balance: {on_off: {on: 1s, period: 2s}}", "on_off is for own, not for random"},
		{"balance: {by: own, on_off: {on: 3s, period: 2s}}", "on_off: on 3s of the period 2s"},
		{"balance: {by: own, on_off: {on: 1ns, period: 1ns}}", "on_off: on 1ns"},
		{"balance: {by: own, on_off: {on: 1s, period: 2000000h}}", "on_off: on 1s"},
		{"duration: 1000h\nbalance: {by: own, on_off: {on: 1ms, period: 2ms}}", "on_off.period 2ms passes"},
		{"balance: {by: own}\nload: {clients: {count: 1, think: 1s}}", "own makes its own load"},
		{"balance: {clients: 5}", "clients 5 is not from 1 to 1000000, for sticky"},
		{"balance: {by: sticky, clients: -5}", "clients -5"},
		{"balance: {by: sticky, clients: 1000001}", "clients 1000001"},
		{"balance: {by: sticky, client_skew: .nan}", "client_skew NaN"},
		{"balance: {service: 1ms}", "service 1ms is not from 0 to 1000h, for least-outstanding"},
		{"balance: {by: least-outstanding, service: -1ms}", "service -1ms"},
		{"balance: {by: least-outstanding, service: 2000000h}", "service 2000000h"},

		{"redis: {latency: -1ms}", "redis: latency -1ms is not from 0 to 1m"},
		{"redis: {latency: 2m}", "latency 2m"},
		{"redis: {latency: 2ms, p99: 1ms}", "p99 1ms is not from the latency 2ms"},
		{"redis: {p99: 2h}", "p99 2h"},
		{"redis: {p99: 2ms, jitter: 0.5}", "p99 and jitter: one of them"},
		{"redis: {timeout: 1us}", "timeout 1µs is not from 1ms to 1m"},
		{"redis: {timeout: 2m}", "timeout 2m"},
		{"redis: {apart: 2m}", "apart 2m0s is not from 0 to 1m"},
		{"redis: {jitter: 2}", "jitter 2 is not from 0 to 1"},
		{"redis: {jitter: .nan}", "jitter NaN"},
		{"redis: {lost: -0.1}", "lost -0.1"},
		{"redis: {lost: .nan}", "lost NaN"},
		{"redis: {repeated: 1.1}", "repeated 1.1"},
		{"redis: {latencies: none.txt, latency: 1ms}", "no latency, p99 or jitter beside them"},
		{"redis: {latencies: none.txt}", "latencies: open none.txt"},

		{"policy: {mode: best}", "policy: mode best is not auto, batches, shares, per-request"},
		{"policy: {fairness: none}", "fairness none is not proportional, max-min"},
		{"policy: {batch: -1}", "Batch -1"},
		{"policy: {min_refresh: 1us}", "MinRefresh 1µs"},
		{"policy: {max_refresh: 2h}", "MaxRefresh 2h"},
		{"policy: {headroom: .nan}", "Headroom NaN"},
		{"policy: {burst_share: 2}", "BurstShare 2"},
		{"policy: {smallest: -1}", "Smallest -1"},
		{"policy: {reserve: .inf}", "Reserve +Inf"},

		{"faults: [{at: 1s, kind: fire}]", "faults[0]: kind fire is not crash, leave"},
		{"faults: [{at: 1s}]", "faults[0]: kind  is not"},
		{"faults: [{at: 1s, kind: flush}, {at: -1s, kind: crash}]", "faults[1]: at -1s"},
		{"faults: [{at: 2000000h, kind: crash}]", "faults[0]: at 2000000h"},
		{"faults: [{at: 1s, kind: crash, every: 1us}]", "every 1µs is not from 1ms"},
		{"faults: [{at: 1s, kind: crash, every: -1s}]", "every -1s"},
		{"faults: [{at: 1s, kind: deploy, every: 101h}]", "every 101h"},
		{"faults: [{at: 1s, kind: crash, for: -1s}]", "for -1s"},
		{"faults: [{at: 1s, kind: crash, for: 2000000h}]", "for 2000000h"},
		{"faults: [{at: 1s, kind: join, count: -1}]", "count -1"},
		{"faults: [{at: 1s, kind: join, count: 10001}]", "count 10001"},
		{"faults: [{at: 1s, kind: crash, process: some}]", "process some is not a number from 0, random or all"},
		{"faults: [{at: 1s, kind: crash, process: -1}]", "process -1"},
		{"faults: [{at: 1s, kind: crash, process: 10000}]", "process 10000"},
		{"faults: [{at: 1s, kind: crash, process: 10}]", "faults[0]: process 10 is none of 0 to 9"},
		{"faults: [{at: 1s, kind: crash, process: 13}, {at: 1s, kind: join, count: 3}]", "process 13 is none of 0 to 12"},
		{"faults: [{at: 1s, kind: outage}]", "outage needs for"},
		{"faults: [{at: 1s, kind: partition}]", "partition needs for"},
		{"keys: [{name: a, limit: 5/s}]\nlimit: 5/s",
			"limit 5/s burst 5 does not go with a list of keys"},
		{"keys: [{name: a, limit: 5/s}]\nburst: 5", "burst 5 does not go with a list of keys"},
		{"keys: [{name: a, limit: 5/s}]\nkey_skew: 1", "key_skew 1 does not go with a list of keys"},
		{"keys: [{name: a, limit: 5/s}]\nload: {patience: 1s}",
			"load.patience 1s does not go with a list of keys"},
		{"keys: [{name: a, limit: 5/s}]\nfaults: [{at: 1s, kind: limit, limit: 5/s}]",
			"faults[0]: kind limit does not go with a list of keys"},
		{"keys: []", "keys 0 kinds is not 1 to 8 kinds"},
		{"keys: [{name: a, limit: 5/s}, {name: a, limit: 6/s}]",
			"keys[1]: name \"a\" is that of another one"},
		{"keys: [{name: key, limit: 5/s}]",
			"keys[0]: name \"key\" is that of another one, or of a key alone"},
		{"keys: [{name: A b, limit: 5/s}]", "keys[0]: name \"A b\" is not"},
		{"keys: [{name: a}]", "keys[0]: limit is missing"},
		{"keys: [{name: a, limit: 5/s, number: -1}]", "keys[0]: number -1"},
		{"keys: [{name: a, limit: 5/s, skew: -1}]", "keys[0]: skew -1"},
		{"keys: [{name: a, limit: 5/day, burst: 7}]", "keys[0]: burst 7 does not go with limit 5/day"},
		{"keys: [{name: a, limit: 5/s, number: 1000000}, {name: b, limit: 5/s}]", "keys 1000001"},
		{"name: a\nkeys:\n  - {name: a, limit: 5/s}\n  - {name: b, limits: 5/s}",
			"line 4: field limits not found"},
		{"name: a\nkeys: {a: 5}", "line 2"},
		{"classes: [{name: a, flor: 1}]", "line 1: field flor not found"},
		{"classes: [{name: A b}]", "classes: A b: name \"A b\" is not up to 30 letters"},
		{"classes: [{name: a}, {name: a}]", "classes: lease: Class.Name \"a\" stands twice"},
		{"classes: [{name: a, floor: 0.6}, {name: b, floor: 0.6}]", "Class.Floor 0.6 of \"b\""},
		{"classes: [{name: a, floor: .nan}]", "Class.Floor NaN of \"a\""},
		{"classes: [{name: a, weight: -1}]", "Class.Weight -1 of \"a\""},
		{"classes: [{name: a, share: 1.5}]", "classes: a: share 1.5 is not from 0 to 1"},
		{"classes: [{name: a, share: .nan}]", "classes: a: share NaN is not from 0 to 1"},
		{"classes: [{name: a, share: 0.5}, {name: b}]", "classes: share 0.5 of all together is not 1"},
		{"classes: [{name: a, on_off: {on: 2s, period: 1s}}]", "classes: a: on_off: on 2s of the period 1s"},
		{"classes: [{name: a, on_off: {on: 2us, period: 1s}}]", "classes: a: on_off: on 2µs"},
		{"duration: 1000h\nload: {rate: 1/s}\nclasses: [{name: a, on_off: {on: 1ms, period: 2ms}}]",
			"classes: a: on_off.period 2ms passes"},
		{"load: {clients: {count: 1, think: 1s}}\nclasses: [{name: a, on_off: {on: 1s, period: 2s}}]",
			"classes: a: on_off is for an open load"},
		{"limit: 5 in any day\nclasses: [{name: a}]", "classes: 1 of them do not go with limit 5 in any day"},
		{"keys: [{name: a, limit: 5/s}]\nclasses: [{name: a}]",
			"classes: 1 of them do not go with a list of keys"},
		{"policy: {mode: batches}\nclasses: [{name: a}]", "classes: lease: Classes: Policy.Mode batches"},
		{"policy: {fairness: max-min}\nclasses: [{name: a}]", "Fairness max-min does not divide"},
		{"balance: {apart: true}", "classes: balance.apart is for classes, and there are none"},
		{"balance: {by: sticky, apart: true}\nclasses: [{name: a}]",
			"classes: balance.apart is for random and own, not for sticky"},
		{"limit: 0/day", "Burst 0"},
		{"limit: 2.5/day", "2.5 is not a whole number"},
		{"limit: quota 5/100ms", "Window 100ms"},
		{"limit: 5/day UTC+20:00", "Offset 20h0m0s"},
		{"limit: 5/day\nburst: 5", "burst 5 does not go with limit 5/day, of kind quota"},
		{"limit: 5 in any 500ms", "Window 500ms"},
		{"limit: 5 in any day\nburst: 5",
			"burst 5 does not go with limit 5 in any day, of kind sliding window"},
		{"limit: 0 slots", "Burst 0"},
		{"limit: 2.5 slots", "2.5 is not a whole number of slots"},
		{"limit: many slots", "want NUMBER/TIME"},
		{"limit: quota 5 slots", "want NUMBER/TIME"},
		{"load: {rate: 5 slots}", "want NUMBER/TIME"},
		{"limit: 5 slots\nburst: 5", "burst 5 does not go with limit 5 slots, of kind slots"},
		{"limit: 5 slots\nload: {cost: 2}", "load: cost 2 does not go with limit 5 slots"},
		{"limit: 5 slots\nload: {costs: [1, 2]}", "load: costs [1 2] does not go with limit 5 slots"},
		{"limit: 5 slots\nload: {retry: {times: 1}}", "load: retry.after is missing: limit 5 slots"},
		{"limit: 5 slots\nload: {hold: {mean: 1us}}", "load: hold.mean 1µs"},
		{"limit: 5 slots\nload: {hold: {times: log}}", "load: hold.times log is not exponential, even"},
		{"limit: 5 slots\nload: {hold: {cv: 2}}", "load: hold.cv is for gamma times"},
		{"limit: 5 slots\nload: {hold: {times: gamma, cv: 30}}", "load: hold.cv 30"},
		{"limit: 5 slots\nbalance: {by: least-outstanding, service: 1s}",
			"balance: service 1s does not go with limit 5 slots"},
		{"load: {hold: {mean: 1s}}", "load: hold of 1s does not go with limit 1000/s"},
		{"keys: [{name: a, limit: 5/s}, {name: b, limit: 5 slots}]",
			"keys[1]: limit 5 slots does not go with a list of keys"},
		{"limit: 5 slots\nfaults: [{at: 1s, kind: limit, limit: 5/s}]",
			"faults[0]: limit 5/s does not follow 5 slots"},
		{"load: {rate: 5/minute}", "want NUMBER/TIME"},
		{"load: {rate: 5 in any day}", "want NUMBER/TIME"},
		{"limit: 5 in any day\nfaults: [{at: 1s, kind: limit, limit: 5/day}]",
			"faults[0]: limit 5/day does not follow 5 in any day"},
		{"limit: 5 in any day\nfaults: [{at: 1s, kind: limit, limit: 5 in any hour}]",
			"faults[0]: limit 5 in any hour does not follow"},
		{"limit: 5/day\nfaults: [{at: 1s, kind: limit, limit: 5/s}]",
			"faults[0]: limit 5/s does not follow 5/day"},
		{"limit: 5/day\nfaults: [{at: 1s, kind: limit, limit: 5/hour}]",
			"faults[0]: limit 5/hour does not follow 5/day"},
		{"faults: [{at: 1s, kind: limit, limit: 5/day}]",
			"faults[0]: limit 5/day does not follow 1000/s"},
		{"faults: [{at: 1s, kind: limit}]", "limit needs limit"},
		{"faults: [{at: 1s, kind: limit, limit: 5/s, burst: -1}]", "Burst -1"},
		{"faults: [{at: 1s, kind: outage, for: 1s, process: 3}]", "outage has no use for process"},
		{"faults: [{at: 1s, kind: deploy, process: 3}]", "deploy has no use for process"},
		{"faults: [{at: 1s, kind: flush, for: 3s}]", "flush has no use for for"},
		{"faults: [{at: 1s, kind: join, for: 3s}]", "join has no use for for"},
		{"faults: [{at: 1s, kind: crash, count: 3}]", "crash has no use for count"},
		{"faults: [{at: 1s, kind: leave, limit: 3/s}]", "leave has no use for limit"},
		{"faults: [{at: 1s, kind: partition, for: 1s, burst: 3}]", "partition has no use for burst"},
		{"faults: [{at: 1s, kind: limit, limit: 3/s, every: 1s}]", "limit has no use for every"},
		{"name: mine\nfaults: [{at: 1s, kind: fire}]", `scenario: "mine": faults[0]`},
	} {
		_, err := read(c.text)
		wantError(t, c.text, err, "scenario: ", c.want)
	}
}

// Sizes that would use up all memory, or never end, are refused at once.
func TestSizes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"duration: 1000h\nfaults: [{at: 0s, kind: crash, every: 1ms}]", "faults[0]: crash happens 3600000000 times in 1000h0m0s; at most 100000"},
		{"duration: 60s\nfaults: [{at: 0s, kind: flush, every: 1ms}, {at: 0s, kind: crash, every: 1ms}]", "faults[1]: crash happens 60000 times"},
		{"processes: 10000\nfaults: [" + strings.Repeat("{at: 0s, kind: deploy, every: 1ms},", 11) + "]", "faults[10]: deploy happens 10000 times"},
		{"faults: [{at: 0s, kind: join, count: 10, every: 1s}, {at: 0s, kind: join, count: 9691}]", "faults: 10 processes and 9991 that join are more than 10000"},
		{"load: {rate: 1e9/s}", "load: 1e+09 requests/s are more than 1e+08"},
		{"limit: 4294967296/s\nkeys: 1000000\nload: {offered: 1000000}", "requests/s are more than"},
		{"load: {rate: 1e8/s}\nduration: 1000h", "load: 1e+08 requests/s for 1000h0m0s are 3.6e+14 requests; at most 1e+11"},
		{"load: {rate: 1e7/s, flash: [{at: 1s, for: 2s, times: 4}, {at: 2s, for: 2s, times: 4}]}", "1.6e+08 requests/s"},
		{"load: {rate: 1e6/s}\nbalance: {by: own, on_off: {on: 1ms, period: 1s}}", "1e+09 requests/s"},
		{"load: {clients: {count: 1000000, think: 1us}}", "1e+12 requests/s"},
	} {
		_, err := read(c.text)
		wantError(t, c.text, err, c.want)
	}
	mustRead(t, "duration: 100s\nfaults: [{at: 0s, kind: crash, every: 1ms}]") // 100,000 of them
	mustRead(t, "faults: [{at: 0s, kind: join, count: 333, every: 1s}]")       // 10,000 processes
	mustRead(t, "load: {rate: 1e7/s, flash: [{at: 1s, for: 2s, times: 9}, {at: 3s, for: 2s, times: 9}]}")
	mustRead(t, "faults: [{at: 999h, kind: crash, process: 9, for: 1000h}]")
}

// YAML that refers to itself again and again is refused, or is as small as it
// looks: what it may hold is known.
func TestBombs(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%[1]c [%s]\n", c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 10))
	}
	for _, text := range []string{
		bomb,
		bomb + "name: *j\n",
		"load: {costs: &a [1, *a]}",
		"load: &a\n  retry: *a\n",
		"name: " + strings.Repeat("[", 100_000),
		strings.Repeat("{a: ", 100_000),
		"faults: [&f {at: 1s, kind: fire}" + strings.Repeat(", *f", 10_000) + "]",
	} {
		if _, err := read(text); err == nil {
			t.Errorf("%.60q: no error", text)
		}
	}
}

// A Set that fails says why and changes nothing: not even what it could read.
func TestSetMistakes(t *testing.T) {
	for _, c := range []struct{ path, value, want string }{
		{"foo", "1", `"foo" is no field: a scenario has no "foo"`},
		{"load.foo", "1", `load has no "foo"`},
		{"load.retry.foo", "1", `retry has no "foo"`},
		{"", "1", "is no field"},
		{".", "1", "is no field"},
		{"load.", "1", "is no field"},
		{"load: {cost", "1}", "is no field"},
		{"limit.PerSecond", "1", "is no field"},
		{"processes.x", "1", "is no field"},
		{"faults.0.at", "1s", "faults is a list: set all of it, such as faults=[...]"},
		{"load.costs.0", "1", "costs is a list"},
		{"processes", "1\nkeys: 2", "has several lines"},
		{"name", "a\nkeys: 2", "has several lines"},
		{"processes", "1, keys: 2", "processes=1, keys: 2"},
		{"processes", "many", "want a whole number"},
		{"processes", "{a: b}", "want a whole number"},
		{"duration", "30", "a duration with its unit"},
		{"load", "{offered: 3, foo: 4}", "field foo not found"},
		{"name", `"open`, "name"},
		{"limit", "lots", "want NUMBER/TIME"},
	} {
		s := mustRead(t, "name: a\nload: {offered: 1}")
		before := s.Text()
		wantError(t, c.path+"="+c.value, s.Set(c.path, c.value), "scenario: ", c.want)
		if s.Text() != before {
			t.Errorf("%s=%s changed\n%sto\n%s", c.path, c.value, before, s.Text())
		}
	}
	for path, want := range map[string]bool{"policy.batch": true, "load.retry": true, "batch": false, "policy": true, "": false} {
		if scenario.IsField(path) != want {
			t.Errorf("IsField(%q) = %v", path, !want)
		}
	}
}
