package state

// A KeyDelete is what is known of the deletion of one of a set's own keys, where a release
// deletes key by key.
type KeyDelete struct {
	Decided bool        // nothing is left to be sent
	Doubt   bool        // a delete whose answer was lost may have been applied
	Was     *OwnChanged // the key as a delete found it; nil: none did
}

// Answered adds the result of a delete; was is the key as an applied one found it.
func (d *KeyDelete) Answered(o Outcome, was OwnChanged) {
	switch o {
	case Applied:
		d.Decided, d.Was = true, &was
	case Refused:
		d.Decided = true
	case Unknown:
		d.Doubt = true
	}
}

// SetDeleted is the answer to the release of a set, of whose keys each was decided.
func SetDeleted(keys []KeyDelete) (ev DeleteAnswered) {
	there := 0
	for i, key := range keys {
		switch {
		case key.Was == nil && !key.Doubt:
			ev.Missing = i
			continue
		case key.Was == nil: // perhaps deleted by the delete whose answer was lost
			ev.Doubtful = true
		case key.Was.Mod >= ev.Was.Mod:
			ev.Was = *key.Was
		}
		there++
	}
	if there == len(keys) {
		return ev
	}
	return DeleteAnswered{Outcome: Refused, Partly: there > 0, Missing: ev.Missing}
}
