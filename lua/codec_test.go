package lua

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/remote/redistest"
)

// withStruct is how prelude.lua gets the library.
const withStruct = "rawget(_G, 'struct')"

type eval func(script string, args ...any) *redis.Cmd

// onEachCodec runs scripts that begin with read and write, on servers that have struct and on
// those that have not.
func onEachCodec(t *testing.T, test func(t *testing.T, eval eval)) {
	codec, _, _ := strings.Cut(prelude, "-- The ledger, the answer")
	if strings.Count(codec, withStruct) != 1 {
		t.Fatalf("prelude.lua does not say %s once", withStruct)
	}
	byHand := strings.Replace(codec, withStruct, "nil", 1)
	real := redistest.Start(t).Client()
	mini := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { mini.Close() })
	for name, on := range map[string]struct {
		client *redis.Client
		codec  string
	}{
		"by struct": {real, codec}, "by hand": {real, byHand}, "miniredis": {mini, codec},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(script string, args ...any) *redis.Cmd {
				return on.client.Eval(t.Context(), on.codec+script, []string{"k"}, args...)
			})
		})
	}
}

// TestResolution: Go reads numbers in the steps in which scripts write them.
func TestResolution(t *testing.T) {
	if got := strconv.Itoa(Resolution); got != constants["RESOLUTION"] {
		t.Errorf("Resolution is %s, and package lease's %s", got, constants["RESOLUTION"])
	}
}

// TestCodecs: with struct and by hand, a script reads what Go reads, and writes the same bytes.
func TestCodecs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	spelled := func(size int, n uint64) string {
		b := AppendRequest(nil, math.Float64frombits(n))
		return string(b[8-size:])
	}
	onEachCodec(t, func(t *testing.T, eval eval) {
		for kind, size := range sizes {
			layout := Layout{{"first", Small}, {"x", Kind(kind)}, {"last", Small}}
			most := uint64(1)<<min(8*size, 53) - 1
			var list []string
			for _, n := range []uint64{0, 1, 255, most, most + 1, 1<<(8*size%64) - 1} {
				list = append(list, spelled(size, n))
			}
			for range 50 {
				list = append(list, spelled(size, rng.Uint64()>>rng.IntN(8*size)))
			}
			if Kind(kind) == Fraction {
				for _, x := range []float64{
					math.Copysign(0, -1), 1, -1.5, 1.0 / 3, -1e300, 1e-300, math.MaxFloat64,
					math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 0x1p-1022,
					math.Nextafter(0x1p-1022, 0), math.Inf(1), math.Inf(-1), math.NaN(),
				} {
					list = append(list, string(AppendRequest(nil, x)))
				}
			}
			for _, text := range list {
				text = "\x07" + text + "\x09"
				var want []float64
				layout.Read(text, func(_ string, x float64) { want = append(want, x) })
				reply, err := eval(`
					local first, x, last, after = read(ARGV[1], ARGV[2])
					local back = x - x == 0 and x <= 2^53 and write(ARGV[1], first, x, last)
					return {first, format('%.17g', x), last, after, back or ''}`,
					layout.format(), text).Slice()
				if err != nil {
					t.Fatalf("%s of %x: %v", layout.format(), text, err)
				}
				if reply[0] != int64(7) || reply[2] != int64(9) || reply[3] != int64(len(text)+1) {
					t.Errorf("%s of %x: read %v", layout.format(), text, reply)
				}
				back := reply[4].(string)
				if math.IsNaN(want[1]) || math.IsInf(want[1], 0) {
					if back != "" {
						t.Errorf("%s of %x: is a number, written as %x", layout.format(), text, back)
					}
					continue
				}
				got, err := strconv.ParseFloat(reply[1].(string), 64)
				if Kind(kind) == Scaled {
					got /= Resolution
				}
				if err != nil || got != want[1] {
					t.Errorf("%s of %x: read %v, not %v", layout.format(), text, reply[1], want[1])
				}
				if back != text && (back != "" || want[1] < 1<<33) {
					t.Errorf("%s of %x: written as %x", layout.format(), text, back)
				}
			}
		}
		if err := eval("return read('>I7d', '123456712345678')").Err(); err != nil {
			t.Error(err)
		}
		if err := eval("return read('>I7d', '12345671234567')").Err(); err == nil {
			t.Error("a text that is too short is read")
		}
	})
}

// TestOutOfRange: no number is written of which some bytes would be missing. (Such numbers of
// a spoilt state minted tokens.)
func TestOutOfRange(t *testing.T) {
	onEachCodec(t, func(t *testing.T, eval eval) {
		for of, layout := range layouts {
			script := name(paste("\n"+layout.writer("spell(d, text)", "text", layout.elements("d"))+fmt.Sprintf(
				"local d, text = {%s}, nil\nd[tonumber(ARGV[1])] = ARGV[2] / ARGV[3]\nspell(d, text)\nreturn text\n",
				strings.TrimSuffix(strings.Repeat("5,", len(layout)), ","))), 0)
			write := func(i int, x string) (string, error) {
				x, y, divided := strings.Cut(x, "/")
				if !divided {
					y = "1"
				}
				return eval(script, i+1, x, y).Text()
			}
			for i, f := range layout {
				bits := 8 * sizes[f.Kind]
				most := math.Ldexp(1, min(bits, 53)) - 1
				bad := []string{"-1", "-1/1000000000", "0/0", "1/0", "-1/0", fmt.Sprintf("%.0f", math.Ldexp(1, bits))}
				switch f.Kind {
				case Scaled:
					most /= Resolution
					bad[5] = "68719476736"
				case Fraction:
					bad, most = bad[2:5], -1e300
				}
				for _, x := range bad {
					text, err := write(i, x)
					if err == nil || !strings.Contains(err.Error(), "a number is out of range") {
						t.Errorf("%s.%s of %s: %x, %v", of, f.Name, x, text, err)
					}
				}
				text, err := write(i, strconv.FormatFloat(most, 'f', -1, 64))
				if err != nil || len(text) != layout.Size() {
					t.Errorf("%s.%s of %v: %x, %v", of, f.Name, most, text, err)
					continue
				}
				layout.Read(text, func(field string, x float64) {
					if field == f.Name && x != most || field != f.Name && x != 5 {
						t.Errorf("%s.%s of %v: %s is read as %v", of, f.Name, most, field, x)
					}
				})
			}
		}
	})
}
