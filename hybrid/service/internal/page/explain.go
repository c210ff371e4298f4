package page

import (
	"net/http"
	"strings"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/humanize"
)

type explainData struct {
	Asked   string
	Problem string
	Lines   []explainLine
	Left    bool // what is left of buckets is known
}

type explainLine struct {
	Descriptor string
	rules.Explanation
	Limited bool
	Text    string
	Left    string     // of the bucket now, if that is known
	Ban     *rules.Ban // that denies now, or nil
}

// explain tells what would limit a request.
func (v *visit) explain() {
	if _, inForce := v.page.config.Limiter.Rules().Domain(v.Domain); !inForce {
		if newest, _ := v.newest(); !v.known(newest) {
			return
		}
	}
	data := explainData{Asked: v.r.URL.Query().Get("descriptors")}
	if data.Asked != "" {
		if err := v.explainAll(&data); err != nil {
			data.Problem = problemOf(err)
		}
	}
	status := http.StatusOK
	if data.Problem != "" {
		status = http.StatusUnprocessableEntity
	}
	v.show(status, "explain", v.Domain+": explain", data)
}

// problemOf is what the page tells about descriptors that make no sense.
func problemOf(err error) string { return strings.TrimPrefix(err.Error(), "rules: ") }

// descriptors reads those of a request, one a line.
func descriptors(text string) (ds []rules.Descriptor, err error) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		entries, err := rules.ParsePath(line)
		if err != nil {
			return nil, err
		}
		if len(ds) <= rules.MaxDescriptors { // one too many is refused
			ds = append(ds, rules.Descriptor{Entries: entries})
		}
	}
	return ds, nil
}

func (v *visit) explainAll(data *explainData) error {
	ds, err := descriptors(data.Asked)
	if err != nil {
		return err
	}
	list, err := v.page.config.Limiter.Rules().Explain(v.Domain, ds...)
	if err != nil {
		return err
	}
	data.explain(ds, list)
	now, err := v.page.config.Limiter.Peek(v.r.Context(), v.Domain, ds...)
	if err != nil {
		v.page.log.Error("what is left of a bucket is not known", "domain", v.Domain, "error", err)
		return nil
	}
	data.Left = true
	for i := range data.Lines {
		if b := now.Each[i].Ban; b != nil {
			data.Lines[i].Ban = b
		}
		if data.Lines[i].Limited && now.Each[i].State == rules.Limited {
			data.Lines[i].Left = humanize.Count(uint64(now.Each[i].Decision.Remaining))
		}
	}
	return nil
}

// explain adds what would limit descriptors.
func (data *explainData) explain(ds []rules.Descriptor, list []rules.Explanation) {
	for i, e := range list {
		line := explainLine{Descriptor: ds[i].String(), Explanation: e, Limited: e.State == rules.Limited}
		if line.Text = e.Rule.Text; e.Trial {
			line.Text = e.Rule.Trial.Text
		}
		data.Lines = append(data.Lines, line)
	}
}
