package page

import (
	"net/http"
	"strings"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/figures"
)

type explainData struct {
	Asked   string
	Problem string
	Lines   []explainLine
}

type explainLine struct {
	Descriptor string
	rules.Explanation
	Limited bool
	Text    string
	Left    string // of the bucket now, if that is known
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
			data.Problem = strings.TrimPrefix(err.Error(), "rules: ")
		}
	}
	status := http.StatusOK
	if data.Problem != "" {
		status = http.StatusUnprocessableEntity
	}
	v.show(status, "explain", v.Domain+": explain", data)
}

func (v *visit) explainAll(data *explainData) error {
	var ds []rules.Descriptor
	for line := range strings.Lines(data.Asked) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		entries, err := rules.ParsePath(line)
		if err != nil {
			return err
		}
		if len(ds) <= rules.MaxDescriptors { // one too many is refused
			ds = append(ds, rules.Descriptor{Entries: entries})
		}
	}
	list, err := v.page.config.Limiter.Rules().Explain(v.Domain, ds...)
	if err != nil {
		return err
	}
	now, err := v.page.config.Limiter.Peek(v.r.Context(), v.Domain, ds...)
	if err != nil {
		v.page.log.Error("what is left of a bucket is not known", "domain", v.Domain, "error", err)
	}
	for i, e := range list {
		line := explainLine{Descriptor: ds[i].String(), Explanation: e, Limited: e.State == rules.Limited}
		if line.Text = e.Rule.Text; e.Trial {
			line.Text = e.Rule.Trial.Text
		}
		if line.Limited && err == nil && now.Each[i].State == rules.Limited {
			line.Left = figures.Count(uint64(now.Each[i].Decision.Remaining))
		}
		data.Lines = append(data.Lines, line)
	}
	return nil
}
