//===- DerivedConstants.cpp - constants computed at compile time ----------===//

#include "qtranspose/Utils/DerivedConstants.h"

#include "qtranspose/Utils/Encodings.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/xxhash.h"

#include <cstring>

namespace mlir::qtranspose {

//===----------------------------------------------------------------------===//
// Formats
//===----------------------------------------------------------------------===//

namespace {
/// How the elements of a constant lie in memory.
struct Format {
  size_t bytes = 0; ///< per element; 0: packed
  unsigned bits = 0;
  bool isPacked() const { return bytes == 0; }
};
} // namespace

static llvm::ArrayRef<char> getBytes(ElementsAttr elements) {
  if (auto dense = dyn_cast<DenseElementsAttr>(elements))
    return dense.getRawData();
  AsmResourceBlob *blob =
      cast<DenseResourceElementsAttr>(elements).getRawHandle().getBlob();
  return blob ? blob->getData() : llvm::ArrayRef<char>();
}

/// The format of `elements`; nothing if its data are missing or of a size that
/// does not fit the type.
static std::optional<Format> getFormat(ElementsAttr elements) {
  uint64_t count = elements.getNumElements();
  Type element = elements.getElementType();
  if (auto dense = dyn_cast<DenseElementsAttr>(elements)) {
    if (!element.isIntOrIndexOrFloat() && !isa<ComplexType>(element))
      return std::nullopt;
    if (dense.isSplat() || count == 0)
      return Format{1, 8};
    if (element.isInteger(1))
      return Format{0, 1};
    return Format{dense.getRawData().size() / count, 0};
  }
  auto resource = dyn_cast<DenseResourceElementsAttr>(elements);
  if (!resource || !resource.getRawHandle().getBlob())
    return std::nullopt;
  uint64_t size = getBytes(elements).size();
  if (count == 0)
    return size == 0 ? std::optional(Format{1, 8}) : std::nullopt;
  unsigned width = 0;
  if (isa<IndexType>(element))
    width = 64;
  else if (auto complex = dyn_cast<ComplexType>(element))
    width = complex.getElementType().isIntOrFloat()
                ? 2 * complex.getElementType().getIntOrFloatBitWidth()
                : 0;
  else if (element.isIntOrFloat())
    width = element.getIntOrFloatBitWidth();
  if (width == 0)
    return std::nullopt;
  if (size == count * llvm::divideCeil(width, 8))
    return Format{llvm::divideCeil(width, 8), width};
  // Upstream leaves open how elements below one byte lie in a resource.
  if (width < 8 && size == llvm::divideCeil(count * width, 8))
    return Format{0, width};
  return std::nullopt;
}

std::optional<ConstantData> getConstantData(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  ConstantData data;
  for (NamedAttribute attribute : op->getDiscardableAttrs()) {
    if (attribute.getName() == derivedAttrName)
      data.derived = dyn_cast<DictionaryAttr>(attribute.getValue());
    else if (attribute.getName() != encodingAttrName)
      return std::nullopt;
  }
  data.encoding = getEncoding(op);
  if (data.derived && !data.encoding)
    data.encoding = data.derived.getAs<DictionaryAttr>("encoding");
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    data.elements = dyn_cast<ElementsAttr>(constant.getValue());
  } else if (isa<ml_program::GlobalLoadOp, ml_program::GlobalLoadConstOp>(op)) {
    auto symbol = op->getAttrOfType<SymbolRefAttr>("global");
    auto global =
        SymbolTable::lookupNearestSymbolFrom<ml_program::GlobalOp>(op, symbol);
    if (!global || global.getIsMutable() || !global.getValue())
      return std::nullopt;
    data.elements = dyn_cast<ElementsAttr>(*global.getValue());
    data.name = global.getSymName();
  }
  if (!data.elements ||
      !isa<DenseElementsAttr, DenseResourceElementsAttr>(data.elements) ||
      data.elements.getType() != value.getType() || !getFormat(data.elements))
    return std::nullopt;
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(data.elements);
      resource && data.name.empty())
    data.name = resource.getRawHandle().getKey();
  return data;
}

//===----------------------------------------------------------------------===//
// Moving data
//===----------------------------------------------------------------------===//

namespace {
/// The loops of a gather, with neighbours that walk the source alike merged.
struct Loops {
  llvm::SmallVector<int64_t> extents, strides;

  explicit Loops(const StridedGather &gather) {
    for (auto [extent, stride] :
         llvm::zip_equal(gather.extents, gather.strides)) {
      if (extent == 1)
        continue;
      if (!extents.empty() && strides.back() == stride * extent) {
        extents.back() *= extent;
        strides.back() = stride;
      } else {
        extents.push_back(extent);
        strides.push_back(stride);
      }
    }
    if (extents.empty()) {
      extents.push_back(1);
      strides.push_back(1);
    }
  }
};

template <size_t Bytes>
struct Element {
  char bytes[Bytes];
};

/// Writes the transpose of a `columns` x `rows` source. Each tile goes through
/// a buffer, so that both sides are accessed in runs: sources whose rows are a
/// power of two apart would otherwise evict each other from the cache.
template <typename T>
void transposeBlocked(const T *source, int64_t sourceStride, T *target,
                      int64_t targetStride, int64_t rows, int64_t columns) {
  constexpr int64_t tile = 64;
  T buffer[tile * tile];
  for (int64_t r0 = 0; r0 < rows; r0 += tile)
    for (int64_t c0 = 0; c0 < columns; c0 += tile) {
      int64_t height = std::min(tile, rows - r0);
      int64_t width = std::min(tile, columns - c0);
      for (int64_t c = 0; c < width; ++c)
        std::memcpy(buffer + c * tile, source + (c0 + c) * sourceStride + r0,
                    height * sizeof(T));
      for (int64_t r = 0; r < height; ++r)
        for (int64_t c = 0; c < width; ++c)
          target[(r0 + r) * targetStride + c0 + c] = buffer[c * tile + r];
    }
}

template <typename T>
void gatherRows(const T *source, const StridedGather &gather, T *target) {
  Loops loops(gather);
  unsigned rank = loops.extents.size();
  unsigned inner = rank - 1;
  llvm::SmallVector<int64_t> targetStrides(rank, 1);
  for (unsigned l = inner; l-- > 0;)
    targetStrides[l] = targetStrides[l + 1] * loops.extents[l + 1];
  // The loop along which the source is contiguous, if that is not the inner.
  unsigned fast = inner;
  for (unsigned l = 0; l < inner; ++l)
    if (loops.strides[l] == 1 && loops.strides[inner] != 1)
      fast = l;

  llvm::SmallVector<int64_t> index(rank, 0);
  int64_t from = gather.offset, to = 0;
  while (true) {
    if (fast != inner)
      transposeBlocked(source + from, loops.strides[inner], target + to,
                       targetStrides[fast], loops.extents[fast],
                       loops.extents[inner]);
    else if (loops.strides[inner] == 1)
      std::memcpy(target + to, source + from, loops.extents[inner] * sizeof(T));
    else
      for (int64_t i = 0; i < loops.extents[inner]; ++i)
        target[to + i] = source[from + i * loops.strides[inner]];
    unsigned l = inner;
    while (l-- > 0) {
      if (l == fast)
        continue;
      from += loops.strides[l];
      to += targetStrides[l];
      if (++index[l] < loops.extents[l])
        break;
      from -= loops.strides[l] * loops.extents[l];
      to -= targetStrides[l] * loops.extents[l];
      index[l] = 0;
    }
    if (l == ~0u)
      return;
  }
}

void gatherBytes(llvm::ArrayRef<char> source, size_t bytes,
                 const StridedGather &gather,
                 llvm::MutableArrayRef<char> target) {
  auto as = [&](auto element) {
    using T = decltype(element);
    gatherRows(reinterpret_cast<const T *>(source.data()), gather,
               reinterpret_cast<T *>(target.data()));
  };
  switch (bytes) {
  case 1:
    return as(Element<1>{});
  case 2:
    return as(Element<2>{});
  case 4:
    return as(Element<4>{});
  case 8:
    return as(Element<8>{});
  default: {
    // Rare widths: an element is a further, innermost loop over its bytes.
    StridedGather perByte = gather;
    for (int64_t &stride : perByte.strides)
      stride *= bytes;
    perByte.offset *= bytes;
    perByte.extents.push_back(bytes);
    perByte.strides.push_back(1);
    gatherRows(source.data(), perByte, target.data());
  }
  }
}

/// Elements of `width` bits, packed from the low bits up, one per byte.
std::vector<char> unpack(llvm::ArrayRef<char> packed, unsigned width,
                         uint64_t count) {
  std::vector<char> bytes(count);
  uint64_t mask = llvm::maskTrailingOnes<uint64_t>(width);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t bit = i * width;
    uint64_t word = static_cast<uint8_t>(packed[bit / 8]);
    if (bit / 8 + 1 < packed.size())
      word |= uint64_t(static_cast<uint8_t>(packed[bit / 8 + 1])) << 8;
    bytes[i] = static_cast<char>((word >> (bit % 8)) & mask);
  }
  return bytes;
}

void pack(llvm::ArrayRef<char> bytes, unsigned width,
          llvm::MutableArrayRef<char> packed) {
  std::memset(packed.data(), 0, packed.size());
  for (uint64_t i = 0; i < bytes.size(); ++i) {
    uint64_t bit = i * width;
    uint64_t word = uint64_t(static_cast<uint8_t>(bytes[i])) << (bit % 8);
    packed[bit / 8] |= static_cast<char>(word);
    if (word >> 8)
      packed[bit / 8 + 1] |= static_cast<char>(word >> 8);
  }
}
} // namespace

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

static bool haveEqualData(ElementsAttr a, ElementsAttr b) {
  if (a == b)
    return true;
  return isa<DenseResourceElementsAttr>(a) &&
         isa<DenseResourceElementsAttr>(b) && a.getType() == b.getType() &&
         getBytes(a) == getBytes(b);
}

ElementsAttr gatherElements(ElementsAttr source, RankedTensorType type,
                            const StridedGather &gather) {
  Format format = *getFormat(source);
  uint64_t count = type.getNumElements();
  // The same data in another shape are not copied.
  Loops loops(gather);
  if (gather.offset == 0 && loops.extents.size() == 1 &&
      loops.strides.front() == 1 &&
      static_cast<int64_t>(count) == source.getNumElements() && count != 0) {
    if (auto dense = dyn_cast<DenseElementsAttr>(source))
      return dense.reshape(type);
    return DenseResourceElementsAttr::get(
        type, cast<DenseResourceElementsAttr>(source).getRawHandle());
  }
  if (auto dense = dyn_cast<DenseElementsAttr>(source)) {
    if (dense.isSplat())
      return dense.resizeSplat(type);
    if (count == 0)
      return DenseElementsAttr::get(type, llvm::ArrayRef<Attribute>());
    if (format.isPacked()) {
      std::vector<char> bytes, moved(count);
      for (bool bit : dense.getValues<bool>())
        bytes.push_back(bit);
      gatherBytes(bytes, 1, gather, moved);
      llvm::SmallVector<bool> bits(moved.begin(), moved.end());
      return DenseElementsAttr::get(type, llvm::ArrayRef<bool>(bits));
    }
    std::vector<char> moved(count * format.bytes);
    gatherBytes(dense.getRawData(), format.bytes, gather, moved);
    return DenseElementsAttr::getFromRawBuffer(type, moved);
  }
  auto resource = cast<DenseResourceElementsAttr>(source);
  AsmResourceBlob &old = *resource.getRawHandle().getBlob();
  size_t size = format.isPacked() ? llvm::divideCeil(count * format.bits, 8)
                                  : count * format.bytes;
  AsmResourceBlob blob = HeapAsmResourceBlob::allocate(
      size, std::max<size_t>(old.getDataAlignment(), 1));
  if (count != 0 && format.isPacked()) {
    std::vector<char> bytes =
        unpack(old.getData(), format.bits, source.getNumElements());
    std::vector<char> moved(count);
    gatherBytes(bytes, 1, gather, moved);
    pack(moved, format.bits, blob.getMutableData());
  } else if (count != 0) {
    gatherBytes(old.getData(), format.bytes, gather, blob.getMutableData());
  }
  // Names are made unique where they are taken.
  return DenseResourceElementsAttr::get(
      type, (resource.getRawHandle().getKey() + "_derived").str(),
      std::move(blob));
}

ElementsAttr DerivedConstants::compute(const DerivedSpec &spec) {
  ElementsAttr source = spec.source.elements;
  llvm::ArrayRef<char> bytes = getBytes(source);
  uint64_t hash = static_cast<size_t>(llvm::hash_combine(
      llvm::xxh3_64bits(llvm::ArrayRef(
          reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size())),
      source.getType().getAsOpaquePointer(), spec.map,
      spec.type.getAsOpaquePointer()));
  for (const Computed &known : computed[hash])
    if (haveEqualData(known.source, source) && known.map == spec.map &&
        known.value.getType() == spec.type)
      return known.value;
  ElementsAttr value = gatherElements(source, spec.type, spec.gather);
  computed[hash].push_back({source, spec.map, value});
  return value;
}

/// Where a constant came from: through several steps, the first source counts.
static DictionaryAttr getProvenance(const DerivedSpec &spec) {
  NamedAttrList entries(spec.description);
  AffineMap map = spec.map;
  Type sourceType = spec.source.elements.getType();
  MLIRContext *context = map.getContext();
  Attribute name;
  if (!spec.source.name.empty())
    name = StringAttr::get(context, spec.source.name);
  if (DictionaryAttr earlier = spec.source.derived) {
    auto earlierMap = earlier.getAs<AffineMapAttr>("map");
    auto earlierType = earlier.getAs<TypeAttr>("source_type");
    if (earlierMap && earlierType &&
        earlierMap.getValue().getNumDims() == map.getNumResults()) {
      map = earlierMap.getValue().compose(map);
      sourceType = earlierType.getValue();
      name = earlier.get("source");
    }
  }
  if (DictionaryAttr encoding = spec.source.encoding)
    if (DictionaryAttr moved = moveEncoding(
            encoding, spec.map, spec.source.elements.getShapedType().getShape(),
            spec.type.getShape()))
      entries.set("encoding", moved);
  entries.set("map", AffineMapAttr::get(map));
  entries.set("source_type", TypeAttr::get(sourceType));
  if (name)
    entries.set("source", name);
  return entries.getDictionary(context);
}

llvm::SmallVector<DerivedConstants::Placed> &
DerivedConstants::getPlaced(Block *block) {
  auto [it, isNew] = placed.try_emplace(block);
  if (isNew)
    for (auto constant : block->getOps<arith::ConstantOp>())
      if (auto provenance =
              constant->getAttrOfType<DictionaryAttr>(derivedAttrName))
        if (auto elements = dyn_cast<ElementsAttr>(constant.getValue()))
          it->second.push_back({elements, provenance, constant});
  return it->second;
}

/// The entry block of the function around `op`.
static Block *getEntryBlock(Operation *op) {
  while (!op->getParentOp()->hasTrait<OpTrait::IsIsolatedFromAbove>())
    op = op->getParentOp();
  return &op->getParentRegion()->front();
}

Value DerivedConstants::get(RewriterBase &rewriter, Operation *user,
                            Location loc, const DerivedSpec &spec) {
  ElementsAttr value = compute(spec);
  DictionaryAttr provenance = getProvenance(spec);
  Block *block = getEntryBlock(user);
  auto withoutName = [](Attribute attribute) {
    NamedAttrList list(cast<DictionaryAttr>(attribute));
    list.erase("source");
    return list.getDictionary(attribute.getContext());
  };
  // In the entry block, what stands before `user` or around it dominates it;
  // for users in other blocks, all of it does.
  Operation *here = block->findAncestorOpInBlock(*user);
  Operation *last = nullptr;
  for (const Placed &known : getPlaced(block)) {
    if (here && !known.op->isBeforeInBlock(here))
      continue;
    last = known.op;
    if (withoutName(known.provenance) == withoutName(provenance) &&
        haveEqualData(known.value, value))
      return known.op->getResult(0);
  }
  OpBuilder::InsertionGuard guard(rewriter);
  if (last)
    rewriter.setInsertionPointAfter(last);
  else
    rewriter.setInsertionPointToStart(block);
  auto constant = arith::ConstantOp::create(rewriter, loc,
                                            cast<TypedAttr>(Attribute(value)));
  constant->setAttr(derivedAttrName, provenance);
  getPlaced(block).push_back({value, provenance, constant});
  return constant.getResult();
}

} // namespace mlir::qtranspose
