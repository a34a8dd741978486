package observe

import "time"

// CampaignEnqueued: the candidate is in the queue.
type CampaignEnqueued struct {
	Claim
	Ahead int // how many stood before it then; 0: it leads; -1: not known
}

// CampaignGaveUp: Campaign returned an error. The candidate may not have come into
// the queue.
type CampaignGaveUp struct {
	Claim
	Wait time.Duration // since the call
	Err  error         // matches what the call's error matches
}

// TermElected: the candidate leads.
type TermElected struct {
	Claim
	How  How
	Wait time.Duration // since the call
}

// TermProclaimed: a call of Term.Proclaim returned.
type TermProclaimed struct {
	Claim
	Took time.Duration
	Err  error // nil: the value was written
}

// TermEnded: the candidate does not lead any more.
type TermEnded struct {
	Claim
	Led     time.Duration
	Err     error // why it was lost: matches elect.ErrLost and one cause; nil: it resigned
	Pending error // a resignation that is not confirmed for now, for this reason: it goes on in the background
}
