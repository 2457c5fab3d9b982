// Settings of the control interface: faults, latency, rates, policy, clock, keys and
// wallets.

package sandbox

import (
	"errors"
	"fmt"
)

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

func (s *Server) setRate(r *rateSetting) error {
	if err := r.check(s); err != nil {
		return err
	}
	s.rates.set(*r)
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
		return wrong("offset_seconds", fmt.Errorf("%d is too far", in.OffsetSeconds))
	}
	s.offset.Store(in.OffsetSeconds)
	return s.persist("meta", "offset", in.OffsetSeconds)
}

type keySetting struct {
	AppID   string `json:"app_id"`
	Revoked bool   `json:"revoked"`
}

func (s *Server) setKey(in *keySetting) error {
	key := s.st.keys[in.AppID]
	if key == nil {
		return wrong("app_id", fmt.Errorf("%q is unknown", in.AppID))
	}
	s.st.mu.Lock()
	key.revoked = in.Revoked
	s.st.mu.Unlock()
	return s.persist("key", in.AppID, in.Revoked)
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
		return wrong("environment", errors.New(`must be "sandbox" or "production"`))
	}
	sp := s.st.spaces[in.AccountID+"/"+in.Environment]
	if sp == nil {
		return wrong("account_id", fmt.Errorf("%q is unknown", in.AccountID))
	}
	s.st.mu.Lock()
	sum := sp.balance + in.AddCents
	if sum < 0 || sum > maxWalletCents || in.AddCents > maxWalletCents {
		defer s.st.mu.Unlock()
		return wrong("add_cents", fmt.Errorf("the wallet holds %d: %d more would leave 0 to %d", sp.balance, in.AddCents, int64(maxWalletCents)))
	}
	frozen := sp.frozen
	if in.FrozenCents != nil {
		frozen = *in.FrozenCents
	}
	if frozen < 0 || in.FrozenCents != nil && frozen > sum {
		defer s.st.mu.Unlock()
		return wrong("frozen_cents", fmt.Errorf("must be 0 to the %d that the wallet holds", sum))
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

// persist stores one row and waits for it.
func (s *Server) persist(kind, id string, value any) error {
	s.st.mu.Lock()
	c := s.newChange()
	c.put(kind, id, value)
	seq := s.submit(c)
	s.st.mu.Unlock()
	return s.durable.wait(seq)
}
