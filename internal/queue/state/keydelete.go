package state

// A KeyDelete is what is known of the deletion of one of a set's own keys, where a release
// deletes key by key.
type KeyDelete struct {
	Decided bool        // nothing is left to be sent
	Was     *OwnChanged // once decided: the key as it was deleted; nil: it did not exist
	Doubt   bool        // a delete whose answer was lost may have been applied
}

// Answered adds the result of a delete of the own key at index; was is the key as an applied
// delete found it.
func (d *KeyDelete) Answered(index int, o Outcome, was OwnChanged) {
	switch {
	case o == Applied:
		d.Decided, d.Was = true, &was
	case o == Refused && d.Doubt: // deleted by the delete whose answer was lost
		d.Decided, d.Was = true, &OwnChanged{Index: index}
	case o == Refused:
		d.Decided = true
	case o == Unknown:
		d.Doubt = true
	}
}

// SetDeleted is the answer to the release of a set, of whose keys each was decided.
func SetDeleted(keys []KeyDelete) DeleteAnswered {
	ev, there := DeleteAnswered{}, 0
	for i, key := range keys {
		if key.Was == nil {
			ev.Missing = i
		} else if there++; key.Was.Mod >= ev.Was.Mod {
			ev.Was = *key.Was
		}
	}
	if there == len(keys) {
		return DeleteAnswered{Was: ev.Was}
	}
	return DeleteAnswered{Outcome: Refused, Partly: there > 0, Missing: ev.Missing}
}
