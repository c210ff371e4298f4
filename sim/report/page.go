// Package report writes what was simulated as one HTML page.
//
// The page explains itself to a reader who has never seen the project, and needs
// nothing but itself: no network, no server, no second file. Script and style
// are let in by their hashes only, so that hostile text in a scenario stays text.
//
// It does not compute: what a figure means, and whether it is good, is the
// caller's to say. It writes numbers that are not finite as gaps or "-".
//
// # Writing a page
//
// Fill a [Page]; leave out what there is none of, and its section is absent.
// All text is plain text. [Write] does not change what it is given.
package report

// Page is what a page shows, from top to bottom.
type Page struct {
	Title string
	Lead  string // one or two plain sentences: what was simulated

	Verdict string // what follows from it, such as a recommendation
	Failed  bool   // Verdict is bad news

	Gains    []string // what the verdict is worth, a sentence each
	Warnings []string // what is wrong, or may mislead
	Notes    []string // what is worth knowing, and no harm
	Facts    []Fact
	Snippets []Snippet // to be pasted

	// Variants names what is compared, two at most; none stands for one variant
	// without a name. Timeline.Admitted, Process.Admitted and Item.Values hold
	// one entry for each, in this order.
	Variants []string

	Front    *Front
	Sweep    *Sweep
	Timeline *Timeline
	Shares   *Shares
	Bars     []Bars
	Scatters *Scatters
	Tables   []Table

	Command   string // makes this page again
	Config    string // YAML
	Glossary  []Term
	Generated string // when and by what, in one line
}

// Fact is a headline figure.
type Fact struct {
	Name  string
	Value string // with its unit
	Note  string // what it means, plainly
	Bad   bool   // it breaks a promise or a constraint
}

// Snippet is text that a reader pastes elsewhere.
type Snippet struct {
	Title, Text string
}

// Sweep is what each value of a setting costs and gives.
type Sweep struct {
	Over   string   // the setting
	Values []string // in the order in which they are drawn
	Charts []SweepChart
}

// SweepChart is one figure at each value; what is not finite is left out.
type SweepChart struct {
	Name, Note string
	Mean       []float64
	Low, High  []float64 // its interval, where there is one
}

// Term is a word and what it means here.
type Term struct {
	Term, Meaning string
}

// Timeline is what was admitted over time. The shorter of its series end early.
//
// More than 600 steps are drawn as means over several, so that every point still
// stands for all its tokens; a caller need not thin them.
type Timeline struct {
	Step float64 // seconds

	// Tokens/s, one value for each step.
	Offered  []float64
	Admitted [][]float64 // of each variant
	Ideal    []float64   // what one ideal central limit admits
	Limit    []float64   // the rate allowed; it may change

	Events []Event
	Note   string // added to the section's explanation
}

// Event is something that happened to the fleet.
type Event struct {
	At    float64 // seconds
	Until float64 // seconds; at most At: it took no time
	Text  string
}

// Shares is what each process got.
type Shares struct {
	Processes []Process // in any order, hundreds at most
	Note      string    // such as how the fair share is defined
}

// Process is one of a fleet. All but its name are tokens of the whole run.
type Process struct {
	Name     string
	Offered  float64
	Fair     float64   // its fair share
	Admitted []float64 // of each variant
}

// Front is what the policies tried cost and gave.
type Front struct {
	Points []Point

	// What a policy must keep to qualify; 0 or NaN: not asked for.
	MaxCalls       float64 // Redis calls for each request
	MinFairness    float64 // Jain's index, 0 to 1
	MinUtilisation float64 // 0 to 1
}

// Point is one policy that was played to the end.
type Point struct {
	Label       string
	Calls       float64 // Redis calls for each request
	Fairness    float64 // Jain's index, 0 to 1
	Utilisation float64 // 0 to 1
	Overshoot   float64 // tokens above what the limit allows, in the worst window

	OnFront     bool // no other policy is better in one figure and worse in none
	Recommended bool
	Classic     bool // what others do: first come, first served batches, or a call for each request
	Qualifies   bool // it keeps what the Front asks for
}

// Bars are amounts, each beside its name as a bar: where tokens went, or a histogram.
type Bars struct {
	Name        string // of the section, for links
	Title, Lead string
	Unit        string // of the values, after those that are Kept
	Items       []Item

	// Rest introduces the names of the items that are 0 everywhere, which have no bar.
	// Where it is empty, they are left out.
	Rest string
}

// Item is one of the amounts.
type Item struct {
	Name   string
	Note   string    // what it means, plainly
	Values []float64 // of each variant

	// Kept tells that it stands as text beside the chart, such as tokens admitted, whose bar
	// would squash the others.
	Kept bool

	// Again tells that other items count the same already: it is no part
	// of the whole of which each is a percentage.
	Again bool
}

// Scatters are small charts of one value against several dimensions: where the holes are.
//
// A point without a place is left out and counted: one whose X or Y is not finite (or is
// beyond 1e100), whose X is not above 0 on a logarithmic axis, or is no index of the Names.
type Scatters struct {
	Title, Lead string    // heading, and a sentence that says how to read the charts
	Value       string    // what is on the vertical axis, with its unit
	Threshold   float64   // a horizontal line; what is above it is worse. NaN: no line
	Charts      []Scatter // all have the same vertical axis
}

// Scatter is one of the charts. A dimension of a few values is better drawn with Names: its
// points are then spread over the width of each name, by their order, and do not hide each
// other.
type Scatter struct {
	Dimension string   // with its unit
	Log       bool     // logarithmic axis
	Names     []string // if not empty: a categorical axis, X is an index of it; Log is ignored
	Points    []ScatterPoint
}

// ScatterPoint is one of those measured.
type ScatterPoint struct {
	X, Y  float64
	Label string // shown while the pointer is on it
	Short bool   // it falls short: the caller's to say, whatever the Threshold is
}

// Table is any table. Columns of numbers are aligned to the right.
type Table struct {
	Title  string
	Note   string
	Head   []string
	Rows   [][]string
	Marked []int // indexes of Rows drawn with a star
	First  bool  // it stands before the charts
}
