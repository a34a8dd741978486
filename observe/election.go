package observe

import "time"

// CampaignEnqueued reports that the candidate is in the queue.
type CampaignEnqueued struct {
	Acquisition
	Ahead int // how many candidates were ahead then; 0 if it leads, -1 if not known
}

// CampaignGaveUp reports that Campaign returned an error. The candidate may never have been
// enqueued.
type CampaignGaveUp struct {
	Acquisition
	Wait time.Duration // since the call
	Err  error         // matches what the call's error matches
}

// TermElected reports that the candidate leads.
type TermElected struct {
	Acquisition
	How  How
	Wait time.Duration // since the call
}

// TermProclaimed reports that a call of Term.Proclaim returned.
type TermProclaimed struct {
	Acquisition
	Took time.Duration
	Err  error // nil if the value was written
}

// TermEnded reports that the candidate no longer leads.
type TermEnded struct {
	Acquisition
	Led     time.Duration
	Err     error // why it was lost, which matches elect.ErrLost and one cause; nil if it resigned
	Pending error // why a resignation that continues in the background is not confirmed yet
}
