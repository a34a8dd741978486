package watcher

// line is a queue of watches, through them, that can be left from the middle. A watch is in at most one.
type line struct{ head, tail *Watch }

// push puts w at the end.
func (l *line) push(w *Watch) {
	w.place, w.before, w.after = queued, l.tail, nil
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.after = w
	}
	l.tail = w
}

// remove takes w, which is in l, out of it.
func (l *line) remove(w *Watch) {
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
	w.place, w.before, w.after = nowhere, nil, nil
}

// pop takes out the first; nil: there is none.
func (l *line) pop() *Watch {
	w := l.head
	if w != nil {
		l.remove(w)
	}
	return w
}
