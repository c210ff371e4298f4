package envoy

import (
	"io"
	"net/http"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// Handler answers ShouldRateLimit over HTTP, as envoyproxy/ratelimit does at /json: the body is a
// RateLimitRequest in JSON, and so is the answer. The code is 200, or 429 for OVER_LIMIT. That of a
// request without an answer is 400, which has no body but the code's text. It blocks as
// ShouldRateLimit does, and until the body is there.
//
// Pages of other origins get 403: any body is taken for JSON, so a browser would send it for them.
func (s *Service) Handler() http.Handler {
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.serveJSON))
}

func (s *Service) serveJSON(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	var in pb.RateLimitRequest
	if err == nil {
		err = protojson.Unmarshal(body, &in)
	}
	var out *pb.RateLimitResponse
	if err == nil {
		out, err = s.ShouldRateLimit(r.Context(), &in)
	}
	var text []byte
	if err == nil {
		text, err = protojson.Marshal(out)
	}
	if err != nil {
		s.config.Log.Debug("envoy: a request over HTTP has no answer", "error", err)
		http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if out.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(text)
}
