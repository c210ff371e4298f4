package envoy_test

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/envoy"
	"github.com/seed13b07268/ration/lease"
)

// Windows of a year: no test meets the end of one.
const document = `domain: shop
descriptors:
  - key: user
    rate_limit: {name: users, unit: year, requests_per_unit: 3}
  - key: pair
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: minute
    rate_limit: {unit: minute, requests_per_unit: 60, burst: 9}
  - key: sliding
    rate_limit: {unit: day, requests_per_unit: 5, kind: sliding}
  - key: blocked
    rate_limit: {unit: hour, requests_per_unit: 0}
  - key: free
    rate_limit: {unlimited: true}
  - key: better
    rate_limit: {unit: year, requests_per_unit: 9, replaces: [{name: users}]}
  - key: shadow
    rate_limit: {name: dark, unit: hour, requests_per_unit: 1}
    shadow_mode: true
  - key: first
    quota_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
    metadata: {service: {name: one, zone: a}, list: [1, true]}
  - key: second
    quota_mode: true
    rate_limit: {unit: year, requests_per_unit: 3}
    metadata: {service: {name: two, port: 8080}}
`

// bans are of the same domain.
const bans = `domain: shop
bans:
  - {descriptor: user=banned, until: 2100-01-01T00:00:00Z, reason: scrapes}
  - {descriptor: address=203.0.113.0/24, until: 2101-01-01T00:00:00Z, reason: floods}
`

// serve serves the document over a connection in memory. If config says nothing else, it waits for
// its store for longer than a busy machine stands still.
func serve(
	t *testing.T, store hybrid.Store, config hybrid.Config, c envoy.Config,
) pb.RateLimitServiceClient {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"shop.yaml": document, "bans.yaml": bans} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	silent := slog.New(slog.DiscardHandler)
	config.Timeout, config.SlogLogger = cmp.Or(config.Timeout, timeout), silent
	limiter, err := rules.New(store, rules.Files(folder), rules.Config{Limiter: config})
	if err != nil {
		t.Fatal(err)
	}
	c.Log = silent
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.MaxRecvMsgSize(1 << 20))
	envoy.New(limiter, c).Register(server)
	go server.Serve(listener)
	conn, err := grpc.NewClient("passthrough:", grpc.WithTransportCredentials(
		insecure.NewCredentials()), grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = limiter.Close(ctx)
	})
	return pb.NewRateLimitServiceClient(conn)
}

// ask asks for descriptors as JSON; a word as user=ann is one of one entry.
func ask(
	t *testing.T, client pb.RateLimitServiceClient, rest string, descriptors ...string,
) (*pb.RateLimitResponse, error) {
	t.Helper()
	var in pb.RateLimitRequest
	if err := protojson.Unmarshal(
		[]byte(`{"domain": "shop", `+rest+`"descriptors": [`+list(descriptors)+`]}`), &in,
	); err != nil {
		t.Fatal(err)
	}
	return client.ShouldRateLimit(t.Context(), &in)
}

func list(descriptors []string) string {
	var all []string
	for _, d := range descriptors {
		words, more, _ := strings.Cut(d, " ")
		key, value, _ := strings.Cut(words, "=")
		if more != "" {
			more = ", " + more
		}
		all = append(all, `{"entries": [{"key": "`+key+`", "value": "`+value+`"}]`+more+`}`)
	}
	return strings.Join(all, ", ")
}

// brief says an answer in a line: the overall code, and for each descriptor its code, what is
// left, and the limit.
func brief(out *pb.RateLimitResponse) string {
	words := []string{out.GetOverallCode().String()}
	for _, s := range out.GetStatuses() {
		word := s.GetCode().String() + "/" + left(s.GetLimitRemaining())
		if l := s.GetCurrentLimit(); l != nil {
			word += "/" + left(l.GetRequestsPerUnit()) + l.GetUnit().String() + l.GetName()
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func left(n uint32) string {
	if n == math.MaxUint32 {
		return "max"
	}
	return string(rune('0' + n%10)) // numbers in these tests have a digit
}

// TestAnswers: each field of an answer, request after request on the same limits.
func TestAnswers(t *testing.T) {
	client := serve(t, hybrid.NewMemory(), hybrid.Config{}, envoy.Config{})
	for _, step := range []struct {
		rest        string
		descriptors []string
		want        string
	}{
		{"", []string{"user=ann"}, "OK OK/2/3YEARusers"},
		{`"hitsAddend": 2, `, []string{"user=ann"}, "OK OK/0/3YEARusers"},
		{"", []string{"user=ann"}, "OVER_LIMIT OVER_LIMIT/0/3YEARusers"},
		// Own hits go before those of the request. What does not fit takes nothing.
		{`"hitsAddend": 9, `, []string{`user=bob "hitsAddend": 2`}, "OK OK/1/3YEARusers"},
		{`"hitsAddend": 2, `, []string{`user=bob`}, "OVER_LIMIT OVER_LIMIT/1/3YEARusers"},
		{"", []string{"user=bob"}, "OK OK/0/3YEARusers"},
		// All or none: what another limit denies is not taken.
		{"", []string{"user=eve", "pair=1"}, "OK OK/2/3YEARusers OK/0/1YEAR"},
		{"", []string{"user=eve", "pair=1"}, "OVER_LIMIT OK/2/3YEARusers OVER_LIMIT/0/1YEAR"},
		{"", []string{"user=eve"}, "OK OK/1/3YEARusers"},
		// Peeks take nothing, and deny the takes beside them.
		{"", []string{`user=eve "hitsAddend": 0`}, "OK OK/1/3YEARusers"},
		{"", []string{`user=eve "hitsAddend": 0`, "pair=2"}, "OK OK/1/3YEARusers OK/0/1YEAR"},
		{"", []string{`user=ann "hitsAddend": 0`, "pair=3"},
			"OVER_LIMIT OVER_LIMIT/0/3YEARusers OK/1/1YEAR"},
		{"", []string{"pair=3"}, "OK OK/0/1YEAR"},
		{"", []string{`pair=3 "hitsAddend": 0`}, "OVER_LIMIT OVER_LIMIT/0/1YEAR"},
		{"", []string{`better=x "hitsAddend": 0`, "user=new"}, "OK OK/9/9YEAR OK/0"},
		// Other kinds, and what is not limited.
		{"", []string{"minute=1"}, "OK OK/8/0MINUTE"},
		{"", []string{"sliding=1"}, "OK OK/4/5DAY"},
		{"", []string{"blocked=1"}, "OVER_LIMIT OVER_LIMIT/0/0HOUR"},
		{"", []string{"free=1", "nobody=1"}, "OK OK/max OK/0"},
		{"", []string{"better=1", "user=ann"}, "OK OK/8/9YEAR OK/0"},
		{"", []string{"shadow=1"}, "OK OK/0/1HOURdark"},
		{"", []string{"shadow=1"}, "OK OK/0/1HOURdark"},
		// Limits that requests bring.
		{"", []string{`user=x "limit": {"requestsPerUnit": 2, "unit": "DAY"}`}, "OK OK/1/2DAY"},
		{"", []string{`any=x "limit": {"requestsPerUnit": 5, "unit": "HOUR"}`}, "OK OK/4/5HOUR"},
		{"", []string{`any=y "limit": {"requestsPerUnit": 0, "unit": "HOUR"}`},
			"OVER_LIMIT OVER_LIMIT/0/0HOUR"},
		{"", []string{`any=y "limit": {"requestsPerUnit": 7, "unit": "DAY", "unitMultiplier": 2}`},
			"OK OK/6/7DAY"},
	} {
		out, err := ask(t, client, step.rest, step.descriptors...)
		if err != nil {
			t.Errorf("%s%s: %v", step.rest, step.descriptors, err)
		} else if got := brief(out); got != step.want {
			t.Errorf("%s%s\n got %s\nwant %s", step.rest, step.descriptors, got, step.want)
		}
	}
	out, err := client.ShouldRateLimit(t.Context(), like(t, "user=ann", "elsewhere"))
	if err != nil || brief(out) != "OK OK/0" {
		t.Errorf("another domain: %v %v", out, err)
	}
}

func like(t *testing.T, descriptor, domain string) *pb.RateLimitRequest {
	t.Helper()
	var in pb.RateLimitRequest
	err := protojson.Unmarshal([]byte(`{"descriptors": [`+list([]string{descriptor})+`]}`), &in)
	if err != nil {
		t.Fatal(err)
	}
	in.Domain = domain
	return &in
}

// TestQuotaMode: a rule in quota mode that denies does not deny the request beside one that admits,
// whether they take or look.
func TestQuotaMode(t *testing.T) {
	client := serve(t, hybrid.NewMemory(), hybrid.Config{}, envoy.Config{})
	const looks = ` "hits_addend": 0`
	for i, step := range []struct {
		descriptors []string
		says        string
	}{
		{[]string{"first=a", "second=a"}, "OK OK/0/1YEAR OK/2/3YEAR"},
		{[]string{"first=a", "second=a"}, "OK OVER_LIMIT/0/1YEAR OK/1/3YEAR"},
		{[]string{"first=a"}, "OVER_LIMIT OVER_LIMIT/0/1YEAR"},
		{[]string{"first=a" + looks, "second=a" + looks}, "OK OVER_LIMIT/0/1YEAR OK/1/3YEAR"},
		{[]string{"first=a" + looks, "user=a"}, "OVER_LIMIT OVER_LIMIT/0/1YEAR OK/3/3YEARusers"},
		{[]string{"first=a" + looks, "second=a"}, "OK OVER_LIMIT/0/1YEAR OK/0/3YEAR"},
		{[]string{"first=a", "first=b" + looks}, "OK OVER_LIMIT/0/1YEAR OK/1/1YEAR"},
		{[]string{"first=a" + looks, "second=a"}, "OVER_LIMIT OVER_LIMIT/0/1YEAR OVER_LIMIT/0/3YEAR"},
		{[]string{"first=a" + looks, "blocked=x" + looks, "second=b"},
			"OVER_LIMIT OVER_LIMIT/0/1YEAR OVER_LIMIT/0/0HOUR OK/3/3YEAR"},
	} {
		out, err := ask(t, client, "", step.descriptors...)
		if err != nil || brief(out) != step.says {
			t.Errorf("%d: %v: %s, %v, not %s", i, step.descriptors, brief(out), err, step.says)
		}
	}
}

// TestMetadata: answers bring the request and the metadata of the rules that admit it.
func TestMetadata(t *testing.T) {
	client := serve(t, hybrid.NewMemory(), hybrid.Config{}, envoy.Config{Metadata: true})
	for _, says := range []string{
		`"metadata":{"list":[1,true],"service":{"name":"one","port":8080,"zone":"a"}}`,
		`"metadata":{"service":{"name":"two","port":8080}}`,
	} {
		out, err := ask(t, client, `"hits_addend": 1, `, "first=a", "second=a", `free=x "hits_addend": 2`)
		if err != nil {
			t.Fatal(err)
		}
		const request = `{"descriptors":[{"entries":["first=a"]},{"entries":["second=a"]},` +
			`{"entries":["free=x"],"hitsAddend":2}],"domain":"shop","hitsAddend":1,`
		has, err := json.Marshal(out.GetDynamicMetadata().AsMap())
		if err != nil || string(has) != request+says+"}" {
			t.Errorf("%s, not %s%s}", has, request, says)
		}
	}
	out, err := ask(t, client, "", "free=x")
	if m := out.GetDynamicMetadata(); err != nil || m == nil || m.GetFields()["metadata"] != nil {
		t.Errorf("%v, %v", m, err)
	}
}

// TestReset: the duration until a limit is fresh, and the headers that tell it in seconds.
func TestReset(t *testing.T) {
	client := serve(t, hybrid.NewMemory(), hybrid.Config{}, envoy.Config{Headers: true})
	out, err := ask(t, client, "", "minute=1", "user=ann", "nobody=1")
	if err != nil {
		t.Fatal(err)
	}
	bucket := out.GetStatuses()[0].GetDurationUntilReset().AsDuration()
	if bucket <= 500*time.Millisecond || bucket > time.Second {
		t.Errorf("a token of 60 a minute is back after %v", bucket)
	}
	quota := out.GetStatuses()[1].GetDurationUntilReset().AsDuration()
	if quota <= 0 || quota > 365*24*time.Hour {
		t.Errorf("a window of a year ends after %v", quota)
	}
	if out.GetStatuses()[2].DurationUntilReset != nil {
		t.Error("what is not limited has a reset")
	}
	got := map[string]string{}
	for _, h := range out.GetResponseHeadersToAdd() {
		got[h.GetKey()] = h.GetValue()
	}
	if len(got) != 3 || got["RateLimit-Limit"] != "3" || got["RateLimit-Remaining"] != "2" ||
		got["RateLimit-Reset"] == "" {
		t.Errorf("headers %v", got)
	}
	if out, err = ask(t, client, "", "nobody=1"); err != nil || out.ResponseHeadersToAdd != nil {
		t.Errorf("headers of no limit: %v %v", out, err)
	}
	plain := serve(t, hybrid.NewMemory(), hybrid.Config{}, envoy.Config{})
	if out, err = ask(t, plain, "", "user=ann"); err != nil || out.ResponseHeadersToAdd != nil {
		t.Errorf("headers by default: %v %v", out, err)
	}
}

// TestRefund: negative hits come back, at least in part, and are never denied, whatever becomes of
// the other descriptors. In its first 10 ms a key asks the store for all, and nothing comes back.
func TestRefund(t *testing.T) {
	client := serve(t, hybrid.NewMemory(), hybrid.Config{}, envoy.Config{})
	const own = `"limit": {"requestsPerUnit": 100000, "unit": "DAY"}`
	left := func(way string) uint32 {
		t.Helper()
		out, err := ask(t, client, "", "free=a "+way+own)
		if err != nil || out.GetOverallCode() != pb.RateLimitResponse_OK {
			t.Fatal(out, err)
		}
		return out.GetStatuses()[0].GetLimitRemaining()
	}
	const give = `"hitsAddend": 10, "isNegativeHits": true, `
	for begin := time.Now(); ; {
		taken := left(`"hitsAddend": 10, `)
		back := left(give)
		if back > taken+10 {
			t.Fatalf("%d were left, and then %d", taken, back)
		}
		if back == taken+10 {
			break
		}
		if time.Since(begin) > 5*time.Second {
			t.Fatal("nothing has come back")
		}
	}
	for range 3 {
		if _, err := ask(t, client, "", "user=ann"); err != nil {
			t.Fatal(err)
		}
	}
	out, err := ask(t, client, "", "user=ann", "free=a "+give+own)
	if err != nil || out.GetStatuses()[0].GetCode() != pb.RateLimitResponse_OVER_LIMIT ||
		out.GetStatuses()[1].GetCode() != pb.RateLimitResponse_OK {
		t.Error(out, err)
	}
}

// TestBadRequests: each is refused with a code and a text, and the service goes on.
func TestBadRequests(t *testing.T) {
	client := serve(t, hybrid.NewMemory(), hybrid.Config{}, envoy.Config{})
	many := func(n int) []string {
		all := make([]string, n)
		for i := range all {
			all[i] = "user=ann"
		}
		return all
	}
	long := strings.Repeat("x", 64<<10)
	for _, try := range []struct {
		text        string
		code        codes.Code
		descriptors []string
	}{
		{"must not be empty", codes.InvalidArgument, nil},
		{"17 descriptors are more than 16", codes.InvalidArgument, many(17)},
		{"10000 descriptors", codes.InvalidArgument, many(10_000)},
		{"more than 4096", codes.InvalidArgument, []string{"user=" + long}},
		{"larger than max", codes.ResourceExhausted,
			[]string{"user=" + strings.Repeat(long, 17)}},
		{"hits_addend", codes.InvalidArgument,
			[]string{`user=a "hitsAddend": "18446744073709551615"`}},
		{"unit", codes.InvalidArgument, []string{`user=a "limit": {"requestsPerUnit": 1}`}},
		{"unit", codes.InvalidArgument,
			[]string{`user=a "limit": {"requestsPerUnit": 1, "unit": 99}`}},
		{"unit_multiplier", codes.InvalidArgument, []string{
			`user=a "limit": {"requestsPerUnit": 1, "unit": "YEAR", "unitMultiplier": 4294967295}`}},
		{"unit_multiplier", codes.InvalidArgument, []string{
			`user=a "limit": {"requestsPerUnit": 1, "unit": "DAY", "unitMultiplier": 0}`}},
	} {
		_, err := ask(t, client, "", try.descriptors...)
		if status.Code(err) != try.code || !strings.Contains(status.Convert(err).Message(), try.text) {
			t.Errorf("%.60s: %.200v", try.descriptors, err)
		}
	}
	for _, in := range []*pb.RateLimitRequest{
		{}, like(t, "user=ann", ""),
		{Domain: "shop", Descriptors: append(like(t, "user=ann", "").Descriptors, nil)},
	} {
		if _, err := client.ShouldRateLimit(t.Context(), in); status.Code(err) !=
			codes.InvalidArgument {
			t.Errorf("%v: %v", in, err)
		}
	}
	if out, err := ask(t, client, "", "user=ann"); err != nil || brief(out) != "OK OK/2/3YEARusers" {
		t.Errorf("after that: %v %v", out, err)
	}
}

// away is a store that does not answer until it is told to.
type away struct{}

func (away) Exchange(ctx context.Context, calls []*lease.Call) {
	<-ctx.Done()
	for _, c := range calls {
		c.Err = ctx.Err()
	}
}

// TestStoreAway: the outage policy decides. Where nothing can be known the call fails as
// Unavailable, and nothing of the store is told; a call that its caller gives up ends.
func TestStoreAway(t *testing.T) {
	for outage, want := range map[hybrid.Outage]pb.RateLimitResponse_Code{
		hybrid.Allow: pb.RateLimitResponse_OK, hybrid.Deny: pb.RateLimitResponse_OVER_LIMIT,
	} {
		synctest.Test(t, func(t *testing.T) {
			limiter, err := rules.New(away{}, fixed(document), rules.Config{Limiter: hybrid.Config{
				Outage: outage, SlogLogger: slog.New(slog.DiscardHandler),
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer limiter.Close(context.Background())
			var service catcher
			envoy.New(limiter, envoy.Config{}).Register(&service)
			ann := like(t, "user=ann", "shop")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := service.ShouldRateLimit(ctx, ann); status.Code(err) != codes.Canceled {
				t.Errorf("a call that was given up: %v", err)
			}
			for range 5 {
				out, err := service.ShouldRateLimit(t.Context(), ann)
				if err == nil {
					if out.GetOverallCode() != want {
						t.Errorf("%v: %v", outage, out)
					}
					return
				}
				if status.Code(err) != codes.Unavailable ||
					status.Convert(err).Message() != "the store did not answer in time" {
					t.Fatalf("%v: %v %v", outage, out, err)
				}
			}
			t.Errorf("%v has not decided in five requests", outage)
		})
	}
}

// catcher catches the implementation that is registered.
type catcher struct{ pb.RateLimitServiceServer }

func (c *catcher) RegisterService(_ *grpc.ServiceDesc, impl any) {
	c.RateLimitServiceServer = impl.(pb.RateLimitServiceServer)
}

// BenchmarkShouldRateLimit is a request without the connection, of one descriptor and of three.
func BenchmarkShouldRateLimit(b *testing.B) {
	file := filepath.Join(b.TempDir(), "shop.yaml")
	text := "domain: shop\ndescriptors:\n" +
		"  - {key: a, rate_limit: {unit: hour, requests_per_unit: 1000000000, kind: quota}}\n" +
		"  - {key: b, rate_limit: {unit: second, requests_per_unit: 1000000000}}\n" +
		"  - {key: c, rate_limit: {unlimited: true}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	limiter, err := rules.New(hybrid.NewMemory(), rules.Files(file), rules.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer limiter.Close(context.Background())
	var c catcher
	envoy.New(limiter, envoy.Config{}).Register(&c)
	for name, descriptors := range map[string][]string{
		"one": {"a=1"}, "three": {"a=1", "b=1", "c=1"},
	} {
		b.Run(name, func(b *testing.B) {
			var in pb.RateLimitRequest
			err := protojson.Unmarshal([]byte(`{"domain": "shop", "descriptors": [`+
				list(descriptors)+`]}`), &in)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.ShouldRateLimit(b.Context(), &in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
