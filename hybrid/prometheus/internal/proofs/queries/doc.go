// Package queries runs the queries of prometheus.Dashboard on the engine of Prometheus, over the
// series of Collectors with known figures, and compares the answers. It has tests only, and a
// module of its own: users of the Collector do not get Prometheus.
package queries
