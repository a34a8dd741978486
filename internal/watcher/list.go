package watcher

// item is an element of a list.
type item[T any] interface {
	comparable
	links() *links[T]
}

// links are an item's neighbours in the one list that it is in.
type links[T any] struct{ before, after T }

// list is a linked list, stored in its items, so that an item can be removed from the middle.
// An item is in at most one list.
type list[T item[T]] struct{ head, tail T }

func (l *list[T]) empty() bool {
	var none T
	return l.head == none
}

// push puts x at the end.
func (l *list[T]) push(x T) {
	var none T
	*x.links() = links[T]{before: l.tail}
	if l.tail == none {
		l.head = x
	} else {
		l.tail.links().after = x
	}
	l.tail = x
}

// remove removes x, which is in l.
func (l *list[T]) remove(x T) {
	var none T
	at := *x.links()
	if at.before == none {
		l.head = at.after
	} else {
		at.before.links().after = at.after
	}
	if at.after == none {
		l.tail = at.before
	} else {
		at.after.links().before = at.before
	}
	*x.links() = links[T]{}
}

// all yields the items. The one that was yielded may be removed meanwhile.
func (l *list[T]) all(yield func(T) bool) {
	var none T
	for x := l.head; x != none; {
		next := x.links().after
		if !yield(x) {
			return
		}
		x = next
	}
}
