// What a disk holds after a power cut, computed from the writes and syncs that it
// remembers.

package disktest

import (
	"maps"
	"slices"
)

// sector is what a disk writes whole or not at all.
const sector = 512

// file is one file as the disk has it: what is synced, and for each sector what
// was written since, any of which may be on the disk.
type file struct {
	synced  []byte
	size    int // as the operating system shows it
	written map[int][][]byte
	cached  map[int][]byte // the newest of each, as the operating system shows it
}

// PowerCut returns the files as they may be after the power failed after the last of
// the events. What was synced is there. Of what was written since, each
// sector is there or not, by itself, whatever the order of the writes was; the
// file may have grown to its new size, or not. What a failed sync should have
// written is gone, although reads showed it until then: the operating system
// has dropped it. choose picks one of n. Removals and new names count as synced.
func PowerCut(events []Event, choose func(n int) int) map[string][]byte {
	files := map[string]*file{}
	for _, e := range events {
		f := files[e.Name]
		if f == nil && e.Op != 'M' {
			f = &file{written: map[int][][]byte{}, cached: map[int][]byte{}}
			files[e.Name] = f
		}
		switch e.Op {
		case 'W':
			f.write(int(e.Offset), e.Data)
		case 'T':
			f.truncate(int(e.Offset))
		case 'S':
			f.sync(e.OK)
		case 'U':
			delete(files, e.Name)
		}
	}
	left := map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		left[name] = files[name].after(choose)
	}
	return left
}

// shown is a sector as a read shows it.
func (f *file) shown(n int) []byte {
	if data := f.cached[n]; data != nil {
		return slices.Clone(data)
	}
	data := make([]byte, sector)
	if n*sector < len(f.synced) {
		copy(data, f.synced[n*sector:])
	}
	return data
}

func (f *file) write(offset int, data []byte) {
	f.size = max(f.size, offset+len(data))
	for len(data) > 0 {
		n, within := offset/sector, offset%sector
		now := f.shown(n)
		copied := copy(now[within:], data)
		f.cached[n] = now
		f.written[n] = append(f.written[n], now)
		offset, data = offset+copied, data[copied:]
	}
}

// truncate of a file that grows again shows zeros; that it may not be on the
// disk yet is in what its sectors may hold.
func (f *file) truncate(size int) {
	for n := size / sector; n*sector < f.size; n++ {
		now := f.shown(n)
		clear(now[max(0, min(sector, size-n*sector)):])
		f.cached[n] = now
		f.written[n] = append(f.written[n], now)
	}
	f.size = size
}

// sync puts the newest of every sector on the disk. One that failed loses them:
// reads continue showing what is not there, until it is written again.
func (f *file) sync(ok bool) {
	if ok {
		f.synced = resized(f.synced, f.size)
		for n, versions := range f.written {
			if n*sector < f.size {
				copy(f.synced[n*sector:], versions[len(versions)-1])
			}
		}
	}
	clear(f.written)
}

// after is the file when the power comes back: nothing of what was written since
// the sync is there, or all of it, or some sectors of it.
func (f *file) after(choose func(n int) int) []byte {
	left := slices.Clone(f.synced)
	how := choose(4)
	if how == 0 {
		return left
	}
	if how == 1 || choose(2) == 1 {
		left = resized(left, f.size)
	}
	for _, n := range slices.Sorted(maps.Keys(f.written)) {
		versions := f.written[n]
		which := len(versions) - 1
		if how != 1 {
			which = choose(len(versions) + 1)
		}
		if which == len(versions) {
			continue // nothing of it is there
		}
		if end := min((n+1)*sector, max(f.size, len(left))); end > len(left) {
			left = resized(left, end)
		}
		if n*sector < len(left) {
			copy(left[n*sector:], versions[which])
		}
	}
	return left
}

// resized is a file's content, cut off or continued with zeros.
func resized(content []byte, size int) []byte {
	return append(content[:min(len(content), size)], make([]byte, max(0, size-len(content)))...)
}
