package local

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A Job wants slots of an entry, and then has them in use.
type Job struct {
	N     float64
	Fence uint64 // of its slots; 0 if no lease covers them

	// End is called once: when the job is finished, which is before anybody else may have its
	// slots, or when its lease has ended, or the entry has. It is called under the entry's
	// lock: it neither blocks nor calls this package.
	End func(finished bool)

	reserved lease.Reserved
	free     bool // no lease covers it
	begun    bool
}

// Begun reports whether the job has had its slots, to whom has asked for them.
func (j *Job) Begun() bool { return j.begun }

// jobs are those that have slots of an entry in use.
type jobs struct {
	open  map[*Job]struct{}
	ended uint64 // leases that had ended when they were last looked at
}

// Acquire asks for slots for a job, which has them once the Verdict is Admitted: of the
// Result, or of its Waiter. Until then it stays in the queue, for as long as its patience;
// with none, until the ledger has been asked, if that has not denied just before.
// While away, nobody waits. A key that has no slots, or fewer than these, is Exceeding. An
// entry that is no table's is Unavailable. With LimitFirst the
// entry is not Gone, but is to be asked again. Then Attend, and after a Verdict that gives no
// slots Dispatch.Turned.
func (e *Entry) Acquire(now time.Duration, j *Job, patience time.Duration, away bool) Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.acquireLocked(now, j, patience, away)
}

func (e *Entry) acquireLocked(now time.Duration, j *Job, patience time.Duration, away bool) Result {
	r := Result{Due: ReadyDue}
	v, always := e.fixed.verdict()
	switch {
	case e.life != inUse:
		return Result{Gone: true}
	case e.lapsedLocked(now):
		return Result{Gone: true, Due: LimitFirst}
	case e.stray:
		r.Verdict = lease.Unavailable
		return r
	case always && v == lease.Admitted:
		e.count.admit(j.N)
		e.beginLocked(j, lease.Reserved{})
		return r
	case !e.slotsLocked(j.N):
		r.Verdict = lease.Exceeding
		return r
	}
	e.useLocked(now)
	reserved, v := e.holder.Reserve(now, j.N)
	switch {
	case v == lease.Admitted:
		e.count.admit(j.N)
		e.beginLocked(j, reserved)
	case v == lease.Exceeding: // as the ledger has just said
		r.Verdict = v
	case v == lease.Denied && patience == 0:
		e.denyLocked(j.N)
		r.Verdict = v
	case away || e.failing():
		r.Verdict = lease.Unavailable
		if !away {
			e.probeLocked(now)
		}
	default:
		return e.enterLocked(now, j.N, patience, lease.Pending, j)
	}
	return r
}

// Turned is what becomes of a job that has asked an entry and was not admitted, by the Verdict:
// it has slots that no lease covers, or it may ask anew after a pause.
func (d *Dispatch) Turned(
	now time.Duration, e *Entry, j *Job, v lease.Verdict,
) (pause time.Duration, free bool) {
	switch {
	case v == lease.Denied: // its deadline is near
		return time.Millisecond, false
	case v != lease.Unavailable || e.Gone():
		return 0, false
	case d.allows(now, e) && e.free(j):
		return 0, true
	}
	return ProbeInterval, false
}

// free lets a job have slots that no lease covers. It reports false if the entry is out of
// use, or has no slots by now, or fewer than these: ask anew.
func (e *Entry) free(j *Job) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life != inUse || e.stray || !e.slotsLocked(j.N) {
		return false
	}
	e.extraLocked().count.Outage.admit(j.N)
	e.beginLocked(j, lease.Reserved{})
	return true
}

// Finish takes the slots of a job back, and reports whether it still had them. Jobs end whose
// lease has ended by now, though nobody has looked since. Then Attend.
func (e *Entry) Finish(now time.Duration, j *Job) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	if !j.free && !e.holder.Keeps(now, j.reserved) {
		e.endJobsLocked(now, false)
	}
	open := e.jobsLocked()
	if _, has := open[j]; !has {
		return false
	}
	delete(open, j)
	j.End(true)
	if !j.free {
		e.backLocked(now, j.reserved, j.N)
	}
	return true
}

// jobsLocked are those that have slots in use.
func (e *Entry) jobsLocked() map[*Job]struct{} {
	if e.extra == nil {
		return nil
	}
	return e.extra.jobs.open
}

// slotsLocked reports whether the limit is of so many slots or more.
func (e *Entry) slotsLocked(n float64) bool {
	l := e.limitLocked()
	return l.Kind.Jobs() && n <= float64(l.Burst)
}

// beginLocked notes that a job has its slots.
func (e *Entry) beginLocked(j *Job, r lease.Reserved) {
	all := &e.extraLocked().jobs
	if all.open == nil {
		all.open = map[*Job]struct{}{}
	}
	j.reserved, j.free, j.begun = r, r.Taken(), true
	if !j.free {
		j.Fence = e.holder.Fence()
	}
	all.open[j] = struct{}{}
}

// endJobsLocked ends the jobs whose lease has ended, or all of them.
func (e *Entry) endJobsLocked(now time.Duration, all bool) {
	if e.extra == nil {
		return
	}
	jobs, ended := &e.extra.jobs, e.holder.Ended()
	if !all && ended == jobs.ended {
		return
	}
	jobs.ended = ended
	for j := range jobs.open {
		if all || !j.free && !e.holder.Keeps(now, j.reserved) {
			delete(jobs.open, j)
			j.End(false)
		}
	}
}
