package observe

import "time"

// CampaignEnqueued: the candidate is in the queue.
type CampaignEnqueued struct {
	Acquisition
	Ahead int // how many candidates were ahead then; 0: it leads; -1: not known
}

// CampaignGaveUp: Campaign returned an error. The candidate may never have been enqueued.
type CampaignGaveUp struct {
	Acquisition
	Wait time.Duration // since the call
	Err  error         // matches what the call's error matches
}

// TermElected: the candidate leads.
type TermElected struct {
	Acquisition
	How  How
	Wait time.Duration // since the call
}

// TermProclaimed: a call of Term.Proclaim returned.
type TermProclaimed struct {
	Acquisition
	Took time.Duration
	Err  error // nil: the value was written
}

// TermEnded: the candidate no longer leads.
type TermEnded struct {
	Acquisition
	Led     time.Duration
	Err     error // why it was lost: matches elect.ErrLost and one cause; nil: it resigned
	Pending error // why a resignation is not confirmed yet: it continues in the background
}
