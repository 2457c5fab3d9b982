package disktest

import (
	"maps"
	"slices"
)

// sector is the number of bytes that a disk writes completely or not at all.
const sector = 512

// file is one file on the disk: its synced content, and the writes to each sector since the
// last sync. Any of these writes may have reached the disk.
type file struct {
	synced  []byte
	size    int // size that the operating system shows
	written map[int][][]byte
	cached  map[int][]byte // by sector: newest content, which the operating system shows
}

// PowerCut returns the files as they may be if the power fails after the last event. Synced
// content is complete. Each sector written later may or may not have reached the disk,
// independently of the others. The file may or may not have its new size. Content whose sync
// failed is lost: the operating system has dropped it, although reads showed it until the power
// cut. Removals and new names count as synced. choose returns a number from 0 to n-1.
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

// truncate zeroes the content that is cut off, in case the file grows again. The zeros may
// not be on the disk yet, so they are one of the possible contents of these sectors.
func (f *file) truncate(size int) {
	for n := size / sector; n*sector < f.size; n++ {
		now := f.shown(n)
		clear(now[max(0, min(sector, size-n*sector)):])
		f.cached[n] = now
		f.written[n] = append(f.written[n], now)
	}
	f.size = size
}

// Puts the newest content of every sector on the disk. If the sync fails, that content never
// reaches the disk; reads still show it.
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

// After a power cut, the file has none, all or some of the sectors written since the last sync.
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
			continue // no write to the sector is on the disk
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

func resized(content []byte, size int) []byte {
	return append(content[:min(len(content), size)], make([]byte, max(0, size-len(content)))...)
}
