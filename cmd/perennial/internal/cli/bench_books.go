// The ledgers of `perennial bench`: their rows, their size, and whether they agree with the
// provider's wallets.

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/ledger"
)

// eachLedger does something with each account's ledger, in the order of the sandbox's
// accounts.
func eachLedger(h *daemon.Host, l load, do func(i int, book *ledger.Ledger) error) error {
	for i, name := range l.accounts {
		for _, a := range h.Accounts {
			if a.Name != name {
				continue
			}
			if err := do(i, a.Ledger()); err != nil {
				return fmt.Errorf("account %s: %w", name, err)
			}
		}
	}
	return nil
}

// checkBooks compares the ledgers with the provider's wallets.
func (b *bench) checkBooks(ctx context.Context, h *daemon.Host, l load, got *carriedOut) (err error) {
	got.booksAgree = true
	err = eachLedger(h, l, func(i int, book *ledger.Ledger) error {
		balance, err := book.Balance(ctx, l.accounts[i])
		if err != nil {
			return err
		}
		wallet, err := b.clients[i].Wallet(ctx)
		if err != nil {
			return err
		}
		got.walletCents += balance.WalletCents
		got.booksAgree = got.booksAgree && balance.WalletCents == wallet.BalanceCents
		return nil
	})
	if err != nil {
		return err
	}
	got.rows, err = rowsOf(ctx, h)
	return err
}

// rowsOf counts the rows of all journals.
func rowsOf(ctx context.Context, h *daemon.Host) (rows int64, err error) {
	for _, a := range h.Accounts {
		seq, _, err := a.Ledger().Head(ctx)
		if err != nil {
			return 0, err
		}
		rows += seq
	}
	return rows, nil
}

// ledgerBytes is what the ledgers have on the disk while they are closed.
func (l load) ledgerBytes() (bytes int64, err error) {
	for _, name := range l.accounts {
		info, err := os.Stat(l.config.LedgerPath(name)) // its log is in it
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		bytes += info.Size()
	}
	return bytes, nil
}
