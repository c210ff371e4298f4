package local

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// Schedule is a schedule.
type Schedule = schedule

// NewSchedule returns an empty Schedule.
func NewSchedule() *Schedule { return newSchedule() }

// Ready, Request and Answer are what a Dispatch does with an entry.
func (e *Entry) Ready(now time.Duration) (ask, urgent bool, wake time.Duration) {
	return e.ready(now)
}

func (e *Entry) Request(now time.Duration) (q lease.Request, ok bool, wake time.Duration) {
	return e.request(now)
}

func (e *Entry) Answer(now time.Duration, q lease.Request, r lease.Reply, err error) bool {
	return e.answer(now, q, r, err)
}

func (d *Draw) Untake() { d.untake() }

func (e *Entry) Counted(now time.Duration) Count {
	c, _ := e.counted(now)
	return c
}

var Sharing = sharing

// Left is how many tokens the pocket of d has.
func (d *Draw) Left() int64 { return d.Pocket.left.Load() }

// DrawOf is a Draw of this goroutine.
func DrawOf(e *Entry) Draw { return Draw{Entry: e, Pocket: e.Pocket()} }
