package grpcfence

import (
	"errors"
	"net/url"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/fencing"
)

// The domain and reasons of the ErrorInfo among a refusal's details.
const (
	Domain        = "fencing.pawl"
	ReasonStale   = "STALE_FENCING_TOKEN"
	ReasonNone    = "NO_FENCING_TOKEN"
	ReasonGarbled = "GARBLED_FENCING_TOKEN"
)

var errNone = refuse(codes.FailedPrecondition, "grpcfence: the call has no "+Key, ReasonNone, nil)

func garbled(why string) error {
	return refuse(codes.InvalidArgument, "grpcfence: "+why, ReasonGarbled, nil)
}

// Status returns the error with which a call is refused because of e: FailedPrecondition, with both
// tokens in its details. It is for handlers that learn of a stale token from their storage; the
// client's interceptor makes a *fencing.StaleError of it again.
func Status(e *fencing.StaleError) error {
	return refuse(codes.FailedPrecondition, e.Error(), ReasonStale, map[string]string{
		"resource": url.PathEscape(e.Resource), // metadata is UTF-8, a resource need not be
		"got":      strconv.FormatInt(int64(e.Got), 10),
		"highest":  strconv.FormatInt(int64(e.Highest), 10),
	})
}

func refuse(code codes.Code, text, reason string, data map[string]string) error {
	plain := status.New(code, text)
	if with, err := plain.WithDetails(&errdetails.ErrorInfo{Domain: Domain, Reason: reason, Metadata: data}); err == nil {
		plain = with
	}
	return plain.Err()
}

// A refused is a status that also matches what it means.
type refused struct {
	*status.Status
	means error
}

func (r *refused) Error() string              { return r.Err().Error() }
func (r *refused) Unwrap() error              { return r.means }
func (r *refused) GRPCStatus() *status.Status { return r.Status }

// fromStatus adds to a status that is a refusal of ours what it means.
func fromStatus(err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.FailedPrecondition && s.Code() != codes.InvalidArgument {
		return err
	}
	for _, d := range s.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != Domain {
			continue
		}
		if means := meaning(info); means != nil {
			return &refused{s, means}
		}
	}
	return err
}

func meaning(info *errdetails.ErrorInfo) error {
	switch info.GetReason() {
	case ReasonNone, ReasonGarbled:
		return fencing.ErrNoToken
	case ReasonStale:
		m := info.GetMetadata()
		resource, err1 := url.PathUnescape(m["resource"])
		got, err2 := strconv.ParseInt(m["got"], 10, 64)
		highest, err3 := strconv.ParseInt(m["highest"], 10, 64)
		if errors.Join(err1, err2, err3) == nil && highest >= got && got > 0 {
			return &fencing.StaleError{Resource: resource, Got: fencing.Token(got), Highest: fencing.Token(highest)}
		}
	}
	return nil
}
