package rules

import (
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// Polled returns f with another interval of polls, and events only if watch says so.
func (f *FileSource) Polled(every time.Duration, watch bool) *FileSource {
	f.poll, f.watch = every, watch
	return f
}

// SameTree reports whether a domain of two Rules was read once.
func SameTree(a, b *Rules, domain string) bool { return a.domains[domain].top == b.domains[domain].top }

// BucketOf returns the rule of a descriptor, the name of its bucket, and the rule to which that
// leads.
func (r *Rules) BucketOf(name string, d Descriptor) (rule, bucket, found string) {
	domain := r.domains[name]
	own := domain.match(d.Entries)
	if own == nil {
		return "", "", ""
	}
	bucket = string(own.bucket(nil, d.Entries))
	entries, mark, err := parseStored(bucket)
	if err != nil || mark != "" {
		return own.Path, bucket, "none: " + bucket
	}
	of := domain.ruleOf(entries)
	switch {
	case of == nil:
		return own.Path, bucket, "none"
	case of.Limit == own.Limit: // rules that share a bucket have the same one
		return own.Path, bucket, own.Path
	}
	return own.Path, bucket, of.Path
}

// OverrideBucket returns the name of the bucket of a descriptor with a Limit, and the limit to
// which that leads.
func OverrideBucket(d Descriptor) (bucket string, found hybrid.Limit) {
	bucket = string(overrideBucket(nil, d))
	l := &Limiter{}
	l.state.Store(&state{})
	return bucket, l.limitFor("d", bucket)
}
