package metrics_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/metrics"
)

// TestHandler: figures are there by domain and rule, whatever their names, and keys are not.
func TestHandler(t *testing.T) {
	stats := rules.Stats{
		Source: rules.SourceStats{Changes: 3, Err: errors.New("broken")},
		Domains: []rules.DomainStats{
			{
				Domain: "shop", Version: 7,
				Limiter: hybrid.Stats{
					Keys: 5, Waiters: 1, Away: true, Answered: 11, Late: 2,
					Lease: hybrid.Verdicts{Admitted: 13},
					RoundTrips: hybrid.RoundTrips{
						Count: 7, AtMost: map[time.Duration]uint64{3200 * time.Microsecond: 4},
					},
					MostDenied: []hybrid.DeniedKey{{Key: "secret"}},
				},
				Rules: []rules.RuleStats{
					{
						Path:   "user",
						Counts: rules.Counts{Admitted: 17, Denied: 19, ShadowUnknown: 23},
						Trial:  rules.Counts{ShadowDenied: 29},
					},
					{Path: `path="/a\"b"`},
					{Path: `tenant=a,path=/a:*`, Counts: rules.Counts{Denied: 2, ShadowDenied: 3}},
				},
			},
			{Domain: "other"},
		},
	}
	handler := metrics.Handler(func() rules.Stats { return stats }, true)
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		body := w.Body.String()
		if w.Code != 200 || strings.Contains(body, "secret") {
			t.Errorf("%d %s", w.Code, body)
		}
		for _, line := range []string{
			`ration_rule_requests_total{domain="shop",limit="own",rule="user",verdict="admitted"} 17`,
			`ration_rule_requests_total{domain="shop",limit="own",rule="user",verdict="denied"} 19`,
			`ration_rule_requests_total{domain="shop",limit="own",rule="user",` +
				`verdict="shadow_unknown"} 23`,
			`ration_rule_requests_total{domain="shop",limit="trial",rule="user",` +
				`verdict="shadow_denied"} 29`,
			`ration_domain_requests_total{domain="shop",source="lease",verdict="admitted"} 13`,
			`ration_domain_exchanges_total{domain="shop",outcome="late"} 2`,
			`ration_domain_keys{domain="shop"} 5`,
			`ration_domain_version{domain="shop"} 7`,
			`ration_domain_store_away{domain="shop"} 1`,
			`ration_domain_store_away{domain="other"} 0`,
			`ration_domain_round_trip_seconds_bucket{domain="shop",le="0.0032"} 4`,
			`ration_domain_round_trip_seconds_count{domain="shop"} 7`,
			`ration_rules_changes_total 3`,
			`ration_rules_stale 1`,
			`go_goroutines `,
			`ratelimit_service_config_load_success 3`,
			`ratelimit_service_rate_limit_total_hits{domain="shop",key1="user",key2=""} 59`,
			`ratelimit_service_rate_limit_over_limit{domain="shop",key1="user",key2=""} 19`,
			`ratelimit_service_rate_limit_within_limit{domain="shop",key1="user",key2=""} 17`,
			`ratelimit_service_rate_limit_over_limit{domain="shop",key1="tenant_a",key2="path_/a_*"} 5`,
			`ratelimit_service_rate_limit_shadow_mode{domain="shop",key1="tenant_a",key2="path_/a_*"} 3`,
		} {
			if !strings.Contains(body, line) {
				t.Errorf("no line %s", line)
			}
		}
	}
}
