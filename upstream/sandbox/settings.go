// Settings of the control interface: faults, latency, rates, policy, clock, keys and
// wallets.

package sandbox

func (s *Server) setFault(f *fault) error {
	if err := f.check(s); err != nil {
		return err
	}
	s.faults.add(f)
	return nil
}

func (s *Server) setLatency(l *latencySetting) error {
	if err := l.check(s); err != nil {
		return err
	}
	s.latency.set(l)
	return nil
}

func (s *Server) setPolicy(p *policySetting) error {
	s.refuseScripts.Store(p.RefuseScriptAgents)
	return nil
}

type clockSetting struct {
	OffsetSeconds int64 `json:"offset_seconds"`
}

func (s *Server) setClock(in *clockSetting) error {
	const century = 100 * 366 * 24 * 3600
	if in.OffsetSeconds > century || in.OffsetSeconds < -century {
		return invalid("offset_seconds", "%d is too far", in.OffsetSeconds)
	}
	return s.persist("meta", "offset", in.OffsetSeconds, func() { s.offset.Store(in.OffsetSeconds) })
}

type keySetting struct {
	AppID   string `json:"app_id"`
	Revoked bool   `json:"revoked"`
}

func (s *Server) setKey(in *keySetting) error {
	key := s.st.keys[in.AppID]
	if key == nil {
		return invalid("app_id", "%q is unknown", in.AppID)
	}
	return s.persist("key", in.AppID, in.Revoked, func() { key.revoked = in.Revoked })
}

type walletSetting struct {
	AccountID   string `json:"account_id"`
	Environment string `json:"environment"`
	AddCents    int64  `json:"add_cents"`
	FrozenCents *int64 `json:"frozen_cents"` // from now on; absent: as it is
}

// addMoney tops a wallet up or takes from it; the referee, which records only
// what the API charged, has no line for it.
func (s *Server) addMoney(in *walletSetting) error {
	if in.Environment != envSandbox && in.Environment != envProduction {
		return invalid("environment", `must be "sandbox" or "production"`)
	}
	sp := s.st.spaces[in.AccountID+"/"+in.Environment]
	if sp == nil {
		return invalid("account_id", "%q is unknown", in.AccountID)
	}
	s.st.mu.Lock()
	sum := sp.balance + in.AddCents
	if sum < 0 || sum > maxWalletCents || in.AddCents > maxWalletCents {
		defer s.st.mu.Unlock()
		return invalid("add_cents", "the wallet holds %d: %d more would leave 0 to %d", sp.balance, in.AddCents, int64(maxWalletCents))
	}
	frozen := sp.frozen
	if in.FrozenCents != nil {
		frozen = *in.FrozenCents
	}
	if frozen < 0 || in.FrozenCents != nil && frozen > sum {
		defer s.st.mu.Unlock()
		return invalid("frozen_cents", "must be 0 to the %d that the wallet holds", sum)
	}
	s.balanceChanges(sp)
	sp.balance, sp.frozen = sum, frozen
	c := s.newChange()
	c.saveWallet(sp)
	if in.FrozenCents != nil {
		c.put("frozen", sp.id(), frozen)
	}
	seq := s.submit(c)
	s.st.mu.Unlock()
	return s.durable.wait(seq)
}

// persist makes a change of one row and waits until it is stored.
func (s *Server) persist(kind, id string, value any, change func()) error {
	s.st.mu.Lock()
	change()
	c := s.newChange()
	c.put(kind, id, value)
	seq := s.submit(c)
	s.st.mu.Unlock()
	return s.durable.wait(seq)
}
