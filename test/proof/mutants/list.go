package main

// mutant is one fault, planted by replacing text in the sources.
type mutant struct {
	name  string // what is done wrong
	rule  string // the rule that it breaks
	edits []edit
	// catch are the packages whose tests are run, one after the other, until one
	// fails.
	catch []string
}

// edit replaces the one place in a file where old stands.
type edit struct{ file, old, new string }

const (
	inSession  = "./internal/session"
	inQueue    = "./internal/queue"
	inKV       = "./kv"
	inCluster  = "./internal/cluster"
	inClock    = "./internal/clock"
	inFencing  = "./fencing"
	inLock     = "./lock"
	inWatch    = "./internal/watcher"
	inElect    = "./elect"
	simulation = "./test/proof/simulate"
	inState    = "./internal/queue/state"
	lockstep   = "./test/proof/model"
	inTogether = "./internal/together"
)

// mutants are the faults that others have made, each of which the tests must
// notice.
var mutants = []mutant{
	{"a renewal counts from its answer's arrival", "T2", []edit{{"internal/session/renewal.go",
		"	k.rest = s.host.Renewals.keep(st)\n", "	k.rest = s.host.Renewals.keep(st)\n	k.sent = clock.Now()\n"}}, []string{inSession, simulation}},
	{"a grant counts from its answer's arrival", "T2", []edit{{"internal/session/grant.go",
		"		return resp.GetHeader(), err\n	})\n	if err == nil && resp.ID != id {", "		sent = clock.Now()\n		return resp.GetHeader(), err\n	})\n	if err == nil && resp.ID != id {"}},
		[]string{inSession, simulation}},
	{"no margin", "T2", []edit{{"internal/session/window.go", "	return w.sent.Add(w.granted - w.kept())", "	return w.sent.Add(w.granted)"}}, []string{inSession}},
	{"what has ended comes back", "T4", []edit{
		{"internal/session/session.go", "	if err := s.Err(); err != nil {\n		return err\n	}\n	s.mu.Lock()\n	defer s.mu.Unlock()\n	if e := s.over.Load(); e != nil {\n		return e.err\n	}\n	if !s.validity", "	s.mu.Lock()\n	defer s.mu.Unlock()\n	if !s.validity"},
		{"internal/session/validity.go", "	if old.over(now) != nil {\n		return false\n	}\n", ""},
	}, []string{simulation, inSession}},
	{"only a timer ends the session", "T3", []edit{
		{"internal/session/session.go", "	if s.validity.window().over(clock.Now()) == nil {\n		return nil\n	}\n	return s.expire()\n", "	return nil\n"},
		{"internal/session/renew.go", "		if s.Err() != nil {\n			return\n		}\n		now := time.Now()\n", "		if s.Err() != nil || s.expire() != nil {\n			return\n		}\n		now := time.Now()\n"},
	}, []string{inSession}},
	{"time slept does not count", "T1", []edit{{"internal/clock/clock.go", ", i.gain-j.gain)", ", 0)"}}, []string{inClock, inSession}},
	{"a renewal's answer is believed without a read", "N1", []edit{{"internal/session/renewal.go",
		"	r := s.confirm(ctx, m, k.answer)\n", "	r := result{rev: k.answer.Header.Revision}\n"}}, []string{inSession, simulation}},
	{"the term is ignored", "N1", []edit{{"internal/session/renewal.go", "	case read.RaftTerm != term:", "	case false:"}}, []string{inSession, simulation}},
	{"a renewal answered with TTL 0 is a success", "N5", []edit{{"internal/session/renewal.go", "k.answer.TTL <= 0", "k.answer.TTL < 0"}}, []string{inSession}},
	{"silence is taken for life: no attempt joins one that hangs", "N3", []edit{{"internal/session/renew.go",
		"	return min(max(300*time.Millisecond, 3*r.usual), r.s.TTL()/4)", "	return time.Hour"}}, []string{inSession, simulation}},
	{"a stream whose answer is late is kept", "N2", []edit{
		{"internal/session/streams.go", "	cancel context.CancelFunc\n}", "	cancel context.CancelFunc\n	answers chan *pb.LeaseKeepAliveResponse\n}"},
		{"internal/session/streams.go", "	stop := context.AfterFunc(ctx, st.cancel)\n	defer", "	stop := func() bool { return true }\n	defer"},
		{"internal/session/streams.go", "		if err != nil {\n			st.cancel()\n		}\n	}()", "		if err != nil && ctx.Err() == nil {\n			st.cancel()\n		}\n	}()"},
		{"internal/session/streams.go", "	if answer, err = st.rpc.Recv(); err != nil {\n		return sent, nil, err\n	}\n", "	if st.answers == nil {\n		st.answers = make(chan *pb.LeaseKeepAliveResponse, 64)\n		go func() {\n			defer close(st.answers)\n			for {\n				late, err := st.rpc.Recv()\n				if err != nil {\n					return\n				}\n				st.answers <- late\n			}\n		}()\n	}\n	select {\n	case answer = <-st.answers:\n		if answer == nil {\n			return sent, nil, io.EOF\n		}\n	case <-ctx.Done():\n		return sent, nil, ctx.Err()\n	}\n"},
		{"internal/session/streams.go", "	for _, st := range streams {\n		_, _ = st.rpc.Recv()\n	}\n", ""},
		{"internal/session/renewal.go", "st.renew(ctx, s.id); err != nil {\n", "st.renew(ctx, s.id); err != nil {\n		if ctx.Err() != nil {\n			s.host.Renewals.keep(st)\n		}\n"},
	}, []string{inSession}},
	{"every renewal goes to the same member", "N1", []edit{{"internal/session/renew.go",
		"		return c.Pick(r.last)\n", "		if r.last != nil {\n			return r.last\n		}\n		return c.Pick()\n"}}, []string{inSession}},
	{"the session key's existence is enough", "N6", []edit{{"internal/session/renewal.go",
		"	case key.CreateRevision != s.create || key.ModRevision != s.mod:", "	case false:"}}, []string{inSession, inQueue}},
	{"a key's name is used again", "A1", []edit{{"internal/session/ledger.go", "	l.next++\n", ""}}, []string{inSession, inQueue}},
	{"the own key's existence is compared, not its create revision", "A2", []edit{{"internal/queue/query.go",
		"		t.Compare = append(t.Compare, txn.CreateIs(key, q.own.Create))\n", "		t.Compare = append(t.Compare, &pb.Compare{Target: pb.Compare_CREATE, Result: pb.Compare_GREATER, Key: []byte(key), TargetUnion: &pb.Compare_CreateRevision{}})\n"}}, []string{inQueue, inLock, simulation}},
	{"the event alone makes the owner", "A2", []edit{{"internal/queue/state/waiting.go",
		"	a.ask()\n	return Effects{Wake: true}\n}\n\n// isNamedBy", "	a.ask()\n	a.owns(ByAnswer)\n	return Effects{Wake: true}\n}\n\n// isNamedBy"}}, []string{lockstep, inQueue, simulation}},
	{"the enqueue's answer is not read for a predecessor", "A2", []edit{{"internal/queue/state/owner.go",
		"	alone := ev.Whole && ev.Predecessor == Key{}\n", "	alone := ev.Whole\n"}}, []string{lockstep}},
	{"a read in part makes the owner", "A2", []edit{{"internal/queue/state/owner.go",
		"	alone := ev.Whole && ev.Predecessor == Key{}\n", "	alone := ev.Predecessor == Key{}\n"}}, []string{inState}},
	{"a second predecessor is not waited for", "A2", []edit{{"internal/queue/state/owner.go",
		"	if ev.Predecessor != (Key{}) {\n", "	if ev.Predecessor != (Key{}) && a.predecessor == (Key{}) {\n"}}, []string{inState, lockstep}},
	{"what was settled as never applied is waited with", "A5", []edit{{"internal/queue/state/waiting.go",
		"	if ev.Own.Create <= 0 {\n", "	if ev.Own.Create < 0 {\n"}}, []string{lockstep}},
	{"a waiter that gives up leaves its key", "A6", []edit{{"internal/queue/state/end.go",
		"		a.phase, fx.Remove = Undoing, true\n", "		a.phase, fx.Remove = Undoing, false\n"}}, []string{lockstep}},
	{"a handoff's list of successors is forgotten", "A2", []edit{{"internal/queue/state/owner.go",
		"		a.successors = h.Successors\n", ""}}, []string{inState, lockstep}},
	{"a release whose answer was lost is called a loss", "R1", []edit{{"internal/queue/state/release.go",
		"		a.deletion.absence = mayBeOurs\n", "		a.deletion.absence = missed\n"}}, []string{lockstep}},
	{"a release does not look at what it deleted", "R1", []edit{{"internal/queue/state/release.go",
		"	case v == Finished && !a.knows(ev.Was):\n", "	case v == Finished && !a.knows(ev.Was) && ev.Handoff:\n"}}, []string{inState, inQueue}},
	{"a value in doubt is forgotten when its repeat is refused", "H1", []edit{{"internal/queue/state/rewrite.go",
		"	case ev.Outcome == NotApplied && d.fresh:\n", "	case ev.Outcome == NotApplied:\n"}}, []string{inState, inQueue}},
	{"waiting rests on the watch alone", "A4", []edit{{"internal/session/roster.go",
		"	for h := r.waiting.first; h != nil; h = h.next {", "	for h := r.waiting.first; h != nil && most < 0; h = h.next {"}}, []string{inSession, inQueue, simulation}},
	{"a compaction ends the wait", "A4", []edit{{"internal/queue/state/waiting.go",
		"		if ev.Missed {\n			a.ask()\n		}\n", "		if ev.Missed {\n			return a.ends(KeyDeleted)\n		}\n"}}, []string{inLock, inQueue, simulation}},
	{"a session's acquisitions do not look at one another", "A2", []edit{{"internal/queue/enqueue.go",
		"ev.Whole = !around || a.isAlone(); ev.Whole {", "ev.Whole = true; ev.Whole {"}}, []string{inQueue}},
	{"an acquisition that has ended is counted again", "A2", []edit{{"internal/session/ledger.go",
		"		case there, held:\n			return leaving, true\n", "		case there, held, gone:\n			return leaving, true\n"}}, []string{inSession}},
	{"a takeover undoes what was left open before it renews", "N6", []edit{{"internal/session/takeover.go",
		"	if err := s.firstRenewal(ctx); err != nil {\n", "	s.tidy(ctx)\n	if err := s.firstRenewal(ctx); err != nil {\n"}}, []string{inSession}},
	{"a takeover that failed revokes the lease", "N6", []edit{{"internal/session/takeover.go", "	s.taking, s.create = true, h.Create\n", "	s.create = h.Create\n"}}, []string{inSession}},
	{"a repeated takeover does not know its own", "N6", []edit{{"internal/session/takeover.go", "	if t.value == nil {\n", "	if t.value != nil || t.value == nil {\n"}}, []string{inSession}},
	{"a lost answer is taken for a failure", "A5", []edit{{"internal/queue/enqueue.go",
		"	case cluster.OutcomeOf(err) == cluster.NotApplied:", "	case err != nil:"}}, []string{inQueue, simulation}},
	{"absence is taken for never applied", "A5", []edit{{"internal/queue/settle.go",
		"			Success: append([]*pb.RequestOp{txn.Put(a.s.CancelKey(a.n), nil, a.s.ID())}, a.ownKeys(txn.Stat)...),", "			Success: []*pb.RequestOp{txn.Stat(a.key), txn.Stat(a.key)},"}}, []string{inQueue, simulation}},
	{"a found enqueue may come again after its release", "A5", []edit{{"internal/queue/settle.go",
		"			Success: append([]*pb.RequestOp{txn.Put(a.s.CancelKey(a.n), nil, a.s.ID())}, a.ownKeys(txn.Stat)...),", "			Compare: []*pb.Compare{txn.CreateIs(a.key, 0)},\n			Success: append([]*pb.RequestOp{txn.Put(a.s.CancelKey(a.n), nil, a.s.ID())}, a.ownKeys(txn.Stat)...),\n			Failure: []*pb.RequestOp{txn.Stat(a.key), txn.Stat(a.key)},"}}, []string{inQueue}},
	{"an acquisition that failed leaves its key", "A6", []edit{{"internal/queue/acquisition.go",
		"		a.s.Leave(a.n)\n", ""}}, []string{inQueue, simulation}},
	{"a context that ended loses against success", "contract", []edit{{"internal/queue/acquire.go",
		"	if err := a.over(ctx); err != nil {\n		return err\n	}\n	a.apply(state.Won{}, nil)\n", "	a.apply(state.Won{}, nil)\n"}}, []string{simulation, inQueue, inLock}},
	{"a release deletes whatever is there", "R1", []edit{{"internal/queue/handoff.go",
		"append(t.Compare, txn.CreateIs(key, own.Create))", "append(t.Compare, &pb.Compare{Target: pb.Compare_CREATE, Result: pb.Compare_GREATER, Key: key, TargetUnion: &pb.Compare_CreateRevision{}})"}}, []string{inQueue, inLock, simulation}},
	{"the token is the header's revision", "K1", []edit{{"internal/queue/settle.go",
		"	if create := a.putAt(resp, 1); create != 0 {\n", "	if create := a.putAt(resp, 1); create != 0 {\n		create = max(create, resp.Header.Revision)\n"}}, []string{inQueue, simulation}},
	{"a reader ignores the writers before it", "RW2", []edit{{"internal/queue/queue.go",
		"	return []span{{from, shared}, {above, to}}\n", "	return []span{{from, shared}, {from, above[:0]}}\n"}}, []string{inQueue, simulation}},
	{"a reader overlooks foreign keys that sort before its own", "RW1", []edit{{"internal/queue/queue.go",
		"	return []span{{from, shared}, {above, to}}\n", "	return []span{{shared, shared}, {above, to}}\n"}}, []string{inQueue}},
	{"a writer ignores readers", "RW2", []edit{{"internal/queue/queue.go",
		"	if !q.Shared {\n		return []span{{from, to}}\n	}\n	shared, above := keys.SharedRange(q.Prefix)\n", "	shared, above := keys.SharedRange(q.Prefix)\n	if !q.Shared {\n		return []span{{above, to}}\n	}\n"}}, []string{inQueue, simulation}},
	{"a shared key is taken for a successor", "RW4", []edit{{"internal/keys/handoff.go",
		"	return ok && k.Form == Exclusive && bytes", "	_ = k\n	return ok && bytes"}}, []string{"./internal/keys", inQueue}},
	{"an entry is counted by the form of its key", "RW5", []edit{{"internal/session/ledger.go",
		"			name, _ := keys.Split(key)\n			if name != last", "			name, own := keys.Split(key)\n			if own[0] == '+' {\n				name += \"+\"\n			}\n			if name != last"}}, []string{inSession, inQueue}},
	{"a writer waits no Delay after readers", "RW3", []edit{{"internal/queue/state/owner.go",
		"	if a.Delay && (ev.Unclean || a.sawShared) {", "	if a.Delay && ev.Unclean {"}}, []string{inQueue, lockstep}},
	{"a shared holder's context says that it is exclusive", "RW2", []edit{{"internal/queue/queue.go",
		"		return fencing.NewSharedContext(ctx, q.Name, t)\n", "		return fencing.NewContext(ctx, q.Name, t)\n"}}, []string{inQueue}},
	{"a guard compares existence", "K3", []edit{
		{"kv/build.go", "Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL,", "Target: pb.Compare_CREATE, Result: pb.Compare_GREATER,"},
		{"kv/build.go", "CreateRevision: int64(g.token)}", "CreateRevision: 0}"},
	}, []string{inKV}},
	{"a write is repeated blindly", "kv 4", []edit{{"kv/txn.go", "Repeat: cluster.IfNotApplied", "Repeat: cluster.Always"}}, []string{inKV}},
	{"reads are serializable", "H3", []edit{{"internal/txn/txn.go", "	op := &rangeOp{}\n", "	op := &rangeOp{}\n	op.get.Serializable = true\n"}}, []string{"./internal/txn", inQueue, inSession}},
	{"a revision that goes back is ignored", "K4", []edit{{"internal/cluster/pin.go", "	if h.Revision < floor {", "	if h.Revision < 0 {"}}, []string{inCluster, inSession}},
	{"another cluster is taken for the same", "K4", []edit{{"internal/cluster/pin.go", "	if id == pinned {", "	if id == pinned || pinned > 0 {"}}, []string{inCluster}},
	{"a handoff by any key is believed", "A2", []edit{{"internal/queue/state/owner.go", "	case a.predecessor.is(h):", "	case a.predecessor != Key{}:"}}, []string{inState, inQueue}},
	{"a handoff is put whatever the successor is", "A2", []edit{{"internal/queue/handoff.go",
		"		t.Compare = append(t.Compare, txn.CreateIs(successor, next.Create))\n", ""}}, []string{inQueue}},
	{"a Run that is asked to end returns what lead returned", "contract", []edit{{"elect/run.go", "		stopped = ctx.Err() != nil\n", "		stopped = true\n"}}, []string{inElect}},
	{"a lease is revoked while its leader still works", "E8", []edit{{"elect/run.go",
		"	release := s.DeferRevocation() // before", "	release := func() {} // before"}}, []string{inElect}},
	{"the pause after a term grows for ever", "E9", []edit{{"elect/run.go", "			r.backoff.Reset()\n", ""}}, []string{inElect}},
	{"an observer forgets the value that it read", "O1", []edit{{"elect/observe.go", "			f.note(p)\n", ""}}, []string{inElect}},
	{"an observer takes old events for new", "O1", []edit{{"elect/state.go", "		if events[i].ModRevision > s.rev {", "		if events[i].ModRevision > 0 {"}}, []string{inElect}},
	{"storage admits a token that is one too low", "K2", []edit{{"fencing/registers.go", "	if t < seen ||", "	if t < seen-1 ||"}}, []string{inFencing}},
	{"storage has one register, of tokens of either mode", "K2", []edit{{"fencing/registers.go", "		seen = Token(r.exclusive.Load())", "		seen = Token(r.highest.Load())"}}, []string{inFencing}},
	{"storage has one register, of exclusive tokens", "K2", []edit{{"fencing/registers.go",
		"		if seen < t && raise(&r.highest, t) == forgotten {", "		if seen == forgotten {"}}, []string{inFencing}},
	{"an exclusive token raises one register alone", "K2", []edit{{"fencing/registers.go", "		seen = r.raiseExclusive(t)\n", "		return t\n"}}, []string{inFencing}},
	{"a register that is raised too late is lost", "K2", []edit{{"fencing/registers.go", "	if r.highest.Load() == forgotten {", "	if r.highest.Load() == 0 {"}}, []string{inFencing}},
	{"a service takes a shared token for an exclusive one", "K2", []edit{{"fencing/internal/wire/wire.go", "		return g.AdmitShared(t.Resource, t.Token)", "		return g.Admit(t.Resource, t.Token)"}}, []string{inFencing + "/httpfence"}},
	{"a stream does not ask for a leader", "F7", []edit{{"internal/cluster/credentials.go",
		"metadata.Pairs(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)", "metadata.Pairs(\"x-\"+rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)"}}, []string{inCluster, inWatch}},
	{"a login is not hedged", "N3", []edit{{"internal/cluster/login.go",
		"	return min(max(300*time.Millisecond, 3*usual), time.Second)", "	return time.Hour"}}, []string{inSession}},
	{"a member that refuses every token makes everybody log in again", "N3", []edit{{"internal/cluster/credentials.go",
		"	case before != nil && elsewhere:", "	case elsewhere && before == nil && before != nil:"}}, []string{inSession}},
	{"TLS is given up for an advertised address", "N3", []edit{{"internal/cluster/sync.go",
		"parseEndpoint(u, c.cfg.secure())", "parseEndpoint(u, c.cfg.TLS != nil)"}}, []string{inCluster}},
	{"not applied is claimed without evidence", "A5", []edit{{"internal/cluster/attempt.go",
		"	if a.seen == 0 || copies > 0 {", "	if false {"}}, []string{inCluster}},
	{"only the last request of an attempt is classified", "A5", []edit{{"internal/cluster/attempt.go",
		"	if outcome == Unknown {\n		a.unclear++\n", "	a.unclear = 0\n	if outcome == Unknown {\n		a.unclear++\n"}}, []string{inCluster}},
	{"an interceptor may send after it has returned", "A5", []edit{{"internal/cluster/attempt.go",
		"	if a.closed {", "	if false {"}}, []string{inCluster}},
	{"an endpoint set aside never comes back", "K4", []edit{{"internal/cluster/keep.go",
		"		if m.isForeign() || !m.checked", "		if !m.isForeign() && !m.checked"}}, []string{inCluster}},
	{"one foreign answer of the last endpoint ends the client", "K4", []edit{{"internal/cluster/pin.go",
		"		c.nudge()\n	}\n	return fmt.Errorf(\"%s: %w (%x", "		if c.noneIsOurs(1) {\n			c.end(ErrChanged)\n		}\n	}\n	return fmt.Errorf(\"%s: %w (%x"}}, []string{inCluster}},
	{"a watch shares one that has delivered what it waits for", "A9", []edit{{"internal/watcher/topic.go", "return w.from >= t.next && (t.wide || w.deletions)", "return t.wide || w.deletions"}}, []string{inWatch}},
	{"two enqueues of one name share a request", "G2", []edit{
		{"internal/together/gather.go", "	return !taken || there == Plain && kind == Plain\n", "	return !taken || there == kind\n"},
		{"internal/together/request.go", "				if t.several && t.puts {\n", "				if false {\n"},
	}, []string{simulation}},
	{"an enqueue shares a request with the deletion of its predecessor", "G2", []edit{
		{"internal/together/gather.go", "	return !taken || there == Plain && kind == Plain\n", "	return !taken || there == Plain || kind == Plain\n"},
		{"internal/together/request.go", "				if t.several && t.puts {\n", "				if false {\n"},
	}, []string{simulation}},
	{"what a request holds is not looked at before it is sent", "G2", []edit{{"internal/together/request.go",
		"				if t.several && t.puts {\n", "				if false {\n"}}, []string{inTogether}},
	{"in etcd's layout writes travel together", "G1", []edit{{"internal/queue/write.go", "	if a.queue.EtcdLayout {\n", "	if false {\n"}}, []string{inQueue}},
	{"a tie is not looked for", "G3", []edit{{"internal/queue/query.go", "			case kv.CreateRevision >= own.Create:\n", "			case len(kv.Key) == 0:\n"}}, []string{inQueue}},
	{"an attempt that hangs keeps its lane", "G4", []edit{{"internal/together/lanes.go", "now.Sub(x.since) >= l.patience()", "now.Sub(x.since) >= time.Hour"}}, []string{inTogether}},
	{"a member that says nothing is not passed over", "G4", []edit{{"internal/together/lanes.go", "			return l.all[i].member\n", "			return nil\n"}}, []string{inTogether}},
	{"a slow server is sent every write by itself", "G4", []edit{{"internal/together/lanes.go", "	mostLanes   = 16 ", "	mostLanes   = 1 << 20 "}}, []string{inTogether}},
	{"a write waits though a lane is free", "G4", []edit{{"internal/together/machine.go", "	return m.next(now)\n}\n\n// finished", "	return effects{}\n}\n\n// finished"}}, []string{inTogether}},
	{"a server that wants fewer operations is not believed", "G5", []edit{{"internal/together/machine.go", "min(m.limits.ops, max((len(parts)+ops)/2, fewestOps))", "m.limits.ops"}}, []string{inTogether}},
	{"what one is refused for is everybody's", "G6", []edit{{"internal/together/sender.go", "	case !unknown && cluster.IsFinal(err):\n", "	case !unknown && err == nil:\n"}}, []string{inTogether}},
	{"what one is refused for after a lost answer is everybody's", "G6", []edit{{"internal/together/sender.go", "	case unknown && p.Repeat == cluster.Always && refused:\n", "	case unknown && err == nil:\n"}}, []string{inTogether}},
	{"what was sent before is reported as not applied", "G7", []edit{{"internal/together/sender.go", "		case v.next == done && err != nil && sent:\n", "		case v.next == done && err != nil && resp != nil:\n"}}, []string{inTogether}},
	{"what gathers waits for as long as others go alone", "G4", []edit{{"internal/together/machine.go", "	m.gather.passed++\n", ""}}, []string{inTogether}},
	{"a request of several is sent twice", "G6", []edit{{"internal/together/gather.go", "		return cluster.IfNotApplied\n", "		return cluster.Always\n"}}, []string{inTogether}},
	{"what was taken out is sent all the same", "G7", []edit{{"internal/together/gather.go",
		"	g.parts = slices.DeleteFunc(g.parts, func(other *part) bool { return other == p })\n", "	g.parts = slices.Clone(g.parts)\n"}}, []string{inTogether}},
	{"a session's end leaves what waits", "G8", []edit{{"internal/together/sender.go", "	over := p.Over\n", "	over := (<-chan struct{})(nil)\n"}}, []string{inTogether}},
	{"a forbidden name goes on spoiling everybody's requests", "G9", []edit{{"internal/together/apart.go", "	if len(a.queues) == 0 && len(a.leases) == 0 {\n", "	if len(a.leases) >= 0 {\n"}}, []string{inTogether}},
	{"without space deletions travel with what puts", "G10", []edit{{"internal/together/gather.go", "	case apart && len(g.parts) > 0 && g.parts[0].writes != writes:\n", "	case apart && n < 0:\n"}}, []string{inTogether}},
	{"a deletion that the full disk refused among others is given up", "G10", []edit{{"internal/together/sender.go",
		"	case unknown && p.Repeat == cluster.Always && cluster.IsNoSpace(err) && !p.writes:\n", "	case unknown && p.Repeat == cluster.Always && cluster.IsNoSpace(err) && !p.writes && p.Op == \"\":\n"}}, []string{inTogether}},
	{"writes travel together among members of two versions", "G11", []edit{{"internal/cluster/version.go", "all != 0 && as != all {", "all < 0 && as != all {"}}, []string{inTogether}},
}
