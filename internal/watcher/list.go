package watcher

// links are a Watch's neighbours in the one list that it is in.
type links struct{ before, after *Watch }

// list is a linked list, stored in its watches, so that one can be removed from the middle.
type list struct{ head, tail *Watch }

// push puts w at the end.
func (l *list) push(w *Watch) {
	w.links = links{before: l.tail}
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.after = w
	}
	l.tail = w
}

// remove removes w, which is in l.
func (l *list) remove(w *Watch) {
	if w.before == nil {
		l.head = w.after
	} else {
		w.before.after = w.after
	}
	if w.after == nil {
		l.tail = w.before
	} else {
		w.after.before = w.before
	}
	w.links = links{}
}
