package prometheus

import _ "embed" // for Dashboard

// Dashboard is a dashboard for Grafana 10 or newer, as JSON: import it, and choose the source of
// data. It adds up the processes of each Limiter. Each of its queries is tried on the real
// engine of Prometheus by the tests of the module in folder queries.
//
//go:embed dashboard.json
var Dashboard string
