package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/hybrid/service/internal/api"
)

// TestDescription: the document is valid OpenAPI. Its operations and their parameters are those
// that are served.
func TestDescription(t *testing.T) {
	d := describe(t)
	if err := d.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	described, served := map[string]string{}, map[string]string{"GET /openapi.yaml": ""}
	for path, item := range d.Paths.Map() {
		for method, operation := range item.Operations() {
			var query []string
			for _, p := range append(slices.Clone(item.Parameters), operation.Parameters...) {
				if p.Value.In == "query" {
					query = append(query, p.Value.Name)
				}
			}
			slices.Sort(query)
			described[method+" "+path] = strings.Join(query, " ")
		}
	}
	for _, r := range api.Routes() {
		slices.Sort(r.Query)
		served[r.Method+" "+r.Path] = strings.Join(r.Query, " ")
	}
	for name, query := range served {
		if got, ok := described[name]; !ok || got != query {
			t.Errorf("%s with parameters %q is described with %q, %v", name, query, got, ok)
		}
	}
	for name := range described {
		if _, ok := served[name]; !ok {
			t.Errorf("%s is described, and not served", name)
		}
	}
}

// TestDescriptionIsServed: everybody gets the document.
func TestDescriptionIsServed(t *testing.T) {
	s := newService(t)
	got := s.do(t, "", "GET", "/openapi.yaml", "", http.StatusOK)
	if got.Body.String() != string(api.Description) {
		t.Errorf("%.80s", got.Body)
	}
}
