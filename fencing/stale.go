package fencing

import "fmt"

// A StaleError says that a write was refused, and not applied, because a holder with a greater token was
// there before. The lock is lost, whatever its handle still says: stop working under it. Guards always
// return it as *StaleError, so errors.As finds it.
type StaleError struct {
	Resource string
	Got      Token // what the write came with
	Highest  Token // the greatest token seen for the resource, or a floor below which nothing is admitted any more
}

// Error names the resource and both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("fencing: stale token %d for %q: %d was seen", int64(e.Got), e.Resource, int64(e.Highest))
}
