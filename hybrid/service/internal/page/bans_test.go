package page

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// ban sets a ban in the shop, as olga does by her own program.
func (s *service) ban(path, reason string) {
	s.t.Helper()
	entries, err := rules.ParsePath(path)
	s.must(err)
	_, err = rules.SetBan(s.t.Context(), s.book.Book, "shop", rules.Ban{
		Entries: entries, Until: time.Now().Add(time.Hour), Reason: reason, Author: "olga",
	})
	s.must(err)
}

// TestBanPage: a hot key leads to a form that bans it, and the list to one that lifts the ban. The
// audit log has both.
func TestBanPage(t *testing.T) {
	s := newService(t, watched(t))
	for range 100 {
		_, err := s.limiter.Take(t.Context(), "shop", rules.Of("user", "a<b>\u202e"))
		s.must(err)
	}
	ed, vic := s.as("ed"), s.as("vic")
	const at, key = "/domains/shop/bans", `user="a<b>\u202e"`
	link := `href="` + at + `?descriptor=user%3D%22a%3Cb%3E%5Cu202e%22">Ban<`
	s.shows(ed, "/domains/shop", link)
	if a := ed.get("/domains/shop"); strings.Contains(a.text, `class="reader"`) {
		t.Error("an editor has no such link")
	}
	if a := vic.get("/domains/shop"); !strings.Contains(a.text, `class="reader"`) {
		t.Error("a viewer sees the link")
	}
	a := ed.get(at + "?descriptor=user%3D%22a%3Cb%3E%5Cu202e%22")
	a.want(t, http.StatusOK, "None is in force", "For 10 minutes an hour")
	if !strings.Contains(a.text, `value="user=&#34;a&lt;b&gt;\u202e&#34;"`) {
		t.Errorf("the form has no %s: %s", key, a.text)
	}
	ed.post(at, "do", "ban", "descriptor", key, "minutes", "10", "reason", "<i>scrapes").
		leads(t, at+"?done=ban")
	a = ed.get(at + "?done=ban")
	a.want(t, http.StatusOK, "The ban is set", key, "<i>scrapes ed,", "Lift the ban of "+key)
	lift := at + "?lift=user%3d%22a%3cb%3e%5cu202e%22"
	if !strings.Contains(a.text, lift) || strings.Contains(a.text, "<i>scrapes") {
		t.Errorf("no way to lift, or markup: %s", a.text)
	}
	ed.get(lift).want(t, http.StatusOK, "Lift a ban", key+" go by the rules again")
	ed.post(at, "do", "lift", "descriptor", key, "reason", " ").
		want(t, http.StatusUnprocessableEntity, "The reason is missing", "Lift a ban")
	ed.post(at, "do", "lift", "descriptor", key, "reason", "a mistake").leads(t, at+"?done=lift")
	ed.get(lift).want(t, http.StatusNotFound, "There is no such ban")
	s.as("ann").get("/domains/shop/audit").want(t, http.StatusOK, "ed 127.0.0.1 banned "+key+" until",
		"<i>scrapes", "ed 127.0.0.1 ban lifted "+key+": a mistake")
}

// shows waits until a page has a text.
func (s *service) shows(b *browser, path, text string) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		if strings.Contains(b.get(path).text, text) {
			return
		}
		<-tick.C
	}
	s.t.Fatalf("%s has no %s: %s", path, text, b.get(path).text)
}

// TestBansEnd: home names the bans of a domain that end within a day, the next ones first, for who
// may view it.
func TestBansEnd(t *testing.T) {
	s := newService(t)
	now := time.Now()
	for name, left := range map[string]time.Duration{
		"a": 4 * time.Hour, "b": 3 * time.Hour, "c": 2 * time.Hour, "d": 23 * time.Hour,
		"e": 25 * time.Hour,
	} {
		_, err := rules.SetBan(t.Context(), s.book.Book, "shop", rules.Ban{
			Entries: rules.Of("user", name).Entries, Until: now.Add(left), Reason: "r", Author: "olga",
		})
		s.must(err)
	}
	vic := s.as("vic")
	s.shows(vic, "/", "and 1 more")
	end := func(left time.Duration) string {
		return now.Add(left).UTC().Format("( " + time.DateTime + " )")
	}
	vic.get("/").want(t, http.StatusOK, "shop : Bans end within a day: user=c "+end(2*time.Hour)+
		", user=b "+end(3*time.Hour)+", user=a "+end(4*time.Hour)+" and 1 more")
	if a := vic.get("/"); !strings.Contains(a.text, `href="/domains/shop/bans"><code>user=c<`) ||
		strings.Contains(a.text, "user=e<") {
		t.Error(a.text)
	}
}

// TestOddBans: what others have set is shown as it is: characters that turn text by their numbers.
// While the book is away nothing is listed as if it were all.
func TestOddBans(t *testing.T) {
	s := newService(t)
	s.ban("address=2001:db8::/64", "turns \u202eround")
	vic := s.as("vic")
	a := vic.get("/domains/shop/bans")
	a.want(t, http.StatusOK, "address=2001:db8::/64", `turns \u202eround olga`)
	if strings.Contains(a.text, "\u202e") || strings.Contains(a.text, "Lift") {
		t.Errorf("it turns the text, or a viewer may lift: %s", a.text)
	}
	s.inForce("shop", 1)
	const explain = "/domains/shop/explain?descriptors=address%3D2001:db8::7"
	s.shows(vic, explain, "banned as")
	vic.get(explain).want(t, http.StatusOK, "banned as address=2001:db8::/64 until 20",
		`UTC turns \u202eround – olga, 20`)
	s.book.away.Store(true)
	vic.get("/domains/shop/bans").want(t, http.StatusServiceUnavailable, "does not answer")
	s.as("ed").post("/domains/shop/bans", "do", "ban", "descriptor", "user=ann", "minutes", "10",
		"reason", "r").want(t, http.StatusServiceUnavailable)
}
