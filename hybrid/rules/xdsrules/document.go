package xdsrules

import (
	"fmt"
	"strings"

	pb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// A domain is a RateLimitConfig as a document has it.
type domain struct {
	Domain      string       `yaml:"domain"`
	Descriptors []descriptor `yaml:"descriptors,omitempty"`
}

type descriptor struct {
	Key            string         `yaml:"key"`
	Value          string         `yaml:"value,omitempty"`
	RateLimit      *limit         `yaml:"rate_limit,omitempty"`
	ShadowMode     bool           `yaml:"shadow_mode,omitempty"`
	QuotaMode      bool           `yaml:"quota_mode,omitempty"`
	DetailedMetric bool           `yaml:"detailed_metric,omitempty"`
	Metadata       map[string]any `yaml:"metadata,omitempty"`
	Descriptors    []descriptor   `yaml:"descriptors,omitempty"`
}

type limit struct {
	Unit            string     `yaml:"unit,omitempty"`
	RequestsPerUnit *uint32    `yaml:"requests_per_unit,omitempty"` // 0 is a limit, too
	Unlimited       bool       `yaml:"unlimited,omitempty"`
	Name            string     `yaml:"name,omitempty"`
	Replaces        []replaces `yaml:"replaces,omitempty"`
}

type replaces struct {
	Name string `yaml:"name"`
}

// document is the text of a resource, as a file would have it.
func document(r *anypb.Any) (rules.Document, error) {
	var config pb.RateLimitConfig
	if err := r.UnmarshalTo(&config); err != nil {
		return rules.Document{}, fmt.Errorf("xdsrules: a resource is no RateLimitConfig: %w", err)
	}
	text, err := yaml.Marshal(domain{config.GetDomain(), descriptorsOf(config.GetDescriptors())})
	if err != nil {
		return rules.Document{}, fmt.Errorf("xdsrules: resource %q: %w", config.GetName(), err)
	}
	return rules.Document{Name: "xds " + config.GetName(), Text: text}, nil
}

func descriptorsOf(list []*pb.RateLimitDescriptor) (all []descriptor) {
	for _, d := range list {
		all = append(all, descriptor{
			Key: d.GetKey(), Value: d.GetValue(), RateLimit: limitOf(d.GetRateLimit()),
			ShadowMode: d.GetShadowMode(), QuotaMode: d.GetQuotaMode(),
			DetailedMetric: d.GetDetailedMetric(), Metadata: d.GetMetadata().AsMap(),
			Descriptors: descriptorsOf(d.GetDescriptors()),
		})
	}
	return all
}

// limitOf leaves out what an unlimited rule says of a number.
func limitOf(l *pb.RateLimitPolicy) *limit {
	if l == nil {
		return nil
	}
	out := &limit{Unlimited: l.GetUnlimited(), Name: l.GetName()}
	if !out.Unlimited {
		n := l.GetRequestsPerUnit()
		out.Unit, out.RequestsPerUnit = strings.ToLower(l.GetUnit().String()), &n
	}
	for _, r := range l.GetReplaces() {
		out.Replaces = append(out.Replaces, replaces{r.GetName()})
	}
	return out
}
