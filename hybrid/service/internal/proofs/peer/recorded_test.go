package peer

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/seed13b07268/ration/hybrid"
)

// headDocument has what envoyproxy/ratelimit has had since March 2026, as document has the rest.
const headDocument = `domain: shop
descriptors:
  - {key: path, value: /api/*/admin, rate_limit: {unit: minute, requests_per_unit: 3 KIND}}
  - {key: path, value: "*/v1/*", rate_limit: {unit: hour, requests_per_unit: 5 KIND}}
  - key: path
    value: "/s*e*"
    share_threshold: true
    rate_limit: {unit: minute, requests_per_unit: 9 KIND}
  - {key: path, value: "/api/*", rate_limit: {unit: minute, requests_per_unit: 4 KIND}}
  - {key: path, rate_limit: {unit: day, requests_per_unit: 30 KIND}}
  - key: tenant
    value: "*-test"
    share_threshold: true
    descriptors:
      - key: user
        value: "a*b"
        rate_limit: {unit: second, requests_per_unit: 2 KIND}
  - key: backend
    value: first
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 2 KIND}
    metadata: {backend: first}
  - {key: backend, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 5 KIND}}
  - {key: plain, rate_limit: {unit: minute, requests_per_unit: 6 KIND}}
`

// drawHead returns a request about headDocument. Its descriptors are in quota mode, all or none:
// of others beside them a difference tells.
func drawHead(r *rand.Rand) *pb.RateLimitRequest {
	paths := []string{"/api/a/admin", "/api//admin", "/api/admin", "/api/b/c/admin", "/api/x",
		"/v1/", "x/v1/y", "/api/v1/admin", "/api/v1/z", "/see", "/sxe", "/s", "/api/*/admin", ""}
	in := &pb.RateLimitRequest{Domain: "shop"}
	if r.IntN(3) == 0 {
		in.Descriptors = append(in.Descriptors, of("backend", "first"))
		for i := range r.IntN(3) {
			in.Descriptors = append(in.Descriptors, of("backend", fmt.Sprint(i)))
		}
		return in
	}
	for _, i := range r.Perm(3)[:1+r.IntN(2)] {
		switch i {
		case 0:
			in.Descriptors = append(in.Descriptors, of("path", paths[r.IntN(len(paths))]))
		case 1:
			tenants, users := []string{"x-test", "-test", "test"}, []string{"ab", "acb", "ba", "aXbb"}
			in.Descriptors = append(in.Descriptors,
				of("tenant", tenants[r.IntN(3)], "user", users[r.IntN(4)]))
		default:
			in.Descriptors = append(in.Descriptors, of("plain", fmt.Sprint(r.IntN(3))))
		}
	}
	return in
}

// recording is what the head of envoyproxy/ratelimit answers, at the commit that doc.go
// names. With the tag head and -long, a test writes it anew.
const recording = "testdata/head.txt"

const recorded = 2000

// history plays the requests of the recording, and calls each for every one.
func history(t *testing.T, now *clock, each func(i int, in *pb.RateLimitRequest)) {
	r := rand.New(rand.NewPCG(1, 2))
	time.Sleep(time.Second / 2)
	for i := range recorded {
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(6000)) * time.Millisecond)
		}
		now.Store(time.Now().Unix())
		each(i, drawHead(r))
	}
}

// TestRecorded: the answers are those that the head has given.
func TestRecorded(t *testing.T) {
	text, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != recorded {
		t.Fatalf("%d lines, not %d", len(lines), recorded)
	}
	now := &clock{}
	synctest.Test(t, func(t *testing.T) {
		we := oursOf(t, hybrid.NewMemory(), quotas(headDocument))
		history(t, now, func(i int, in *pb.RateLimitRequest) {
			our, err := we.ShouldRateLimit(t.Context(), in)
			if err != nil || !agrees(short(our), lines[i]) {
				t.Fatalf("request %d: %v\n  ours %s, %v\ntheirs %s", i, in, short(our), err, lines[i])
			}
		})
	})
}

// quotas is a document with quotas for fixed windows.
func quotas(text string) string { return strings.ReplaceAll(text, " KIND", ", kind: quota") }

// short says an answer in few letters: for each descriptor its code, what is left, and the limit.
func short(out *pb.RateLimitResponse) string {
	words := []string{out.GetOverallCode().String()}
	for _, s := range out.GetStatuses() {
		word := s.GetCode().String()
		if l := s.GetCurrentLimit(); l != nil {
			word += fmt.Sprintf(" %d of %d/%v", s.GetLimitRemaining(), l.GetRequestsPerUnit(), l.GetUnit())
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// agrees reports whether short answers are the same. Of a request that is denied, those of ours
// that deny are among theirs, and of the others only the limit itself is the same, as in agree.
func agrees(our, their string) bool {
	if strings.HasPrefix(our, "OK") {
		return our == their
	}
	ours, theirs := strings.Split(our, ", "), strings.Split(their, ", ")
	for i, o := range ours {
		_, limit, limited := strings.Cut(o, " of ")
		switch {
		case len(ours) != len(theirs), i == 0 && o != theirs[0]:
			return false
		case o == theirs[i]:
		case i == 0, !strings.HasPrefix(o, "OK "), !limited, !strings.HasSuffix(theirs[i], " of "+limit):
			return false
		}
	}
	return strings.Count(our, "OVER_LIMIT") > 1
}
