// Package httplimit puts limits in front of HTTP handlers, and of requests that a client sends.
//
// A Guard takes the tokens of all limits that apply to a request, or of none. Which limits these
// are, functions say that look at the request: its client's address, a header, the pattern of
// the mux. A request to which no limit applies passes.
//
//	limits := httplimit.Limits{
//		{Name: "client", Key: httplimit.Client{}, Limit: hybrid.PerSecond(10).WithBurst(50)},
//		{Name: "everybody", Limit: hybrid.PerSecond(1000), Hidden: true},
//	}
//	limiter, err := hybrid.New(store, hybrid.Config{LimitFor: limits.For})
//	...
//	guard, err := httplimit.New(limiter, httplimit.Config{
//		Limits: limits, OnError: httplimit.FailOpen,
//	})
//	...
//	http.ListenAndServe("localhost:8080", guard.Handler(mux))
//
// # Promise
//
// A handler runs only for a request that all its limits admit. Any other is answered with 429,
// Retry-After and an error in JSON. Each answer tells by its header fields what is left. A limit
// that denies costs the others nothing. If the Limiter returns an error, Config.OnError decides.
//
// # What it does not promise
//
// It does not stop clients from sending requests, and reads nothing of a body. It knows no
// client: an address that a proxy passes on is believed only if the proxy is named in
// Client.Trusted. A header without authentication is what the client likes to say.
//
// # The caller's duties
//
// The Limiter must have the limits: by Limits.For, or by a Config of its own. Close it after the
// server's Shutdown. Give each Guard on one Limiter the same Limits, or other names.
//
// docs/http.md tells more, with a table of header fields.
package httplimit
