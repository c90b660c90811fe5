//===- EncodingDocument.cpp - quantization encodings as JSON --------------===//

#include "qtranspose/Utils/EncodingDocument.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <map>

namespace json = llvm::json;

namespace mlir::qtranspose {

static constexpr llvm::StringLiteral activationSection = "activation_encodings";
static constexpr llvm::StringLiteral parameterSection = "param_encodings";

template <typename... Parts>
static llvm::Error fail(const Parts &...parts) {
  std::string message;
  llvm::raw_string_ostream os(message);
  ((os << parts), ...);
  return llvm::createStringError(message);
}

/// The parser recurses, so what it is given must end somewhere before the stack
/// does.
static bool isTooDeep(llvm::StringRef text) {
  constexpr unsigned maxDepth = 64;
  unsigned depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char character = text[i];
    if (inString) {
      i += character == '\\';
      inString = character != '"';
    } else if (character == '"') {
      inString = true;
    } else if (character == '[' || character == '{') {
      if (++depth > maxDepth)
        return true;
    } else if (character == ']' || character == '}') {
      depth -= depth != 0;
    }
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {
/// Reads the fields of one JSON object; the first problem is kept.
class FieldReader {
public:
  FieldReader(const json::Object &object, std::string where)
      : object(object), where(std::move(where)) {}

  /// The field of the first of `names` that is there.
  const json::Value *find(std::initializer_list<llvm::StringRef> names) const {
    for (llvm::StringRef name : names)
      if (const json::Value *value = object.get(name))
        return value;
    return nullptr;
  }

  std::optional<int64_t>
  getInteger(std::initializer_list<llvm::StringRef> names, bool isRequired,
             int64_t low, int64_t high) {
    const json::Value *value = find(names);
    if (!value) {
      if (isRequired)
        problem(*names.begin(), "is missing");
      return std::nullopt;
    }
    std::optional<int64_t> integer = asInteger(*value);
    if (!integer || *integer < low || *integer > high) {
      problem(*names.begin(), "is not an integer of its range");
      return std::nullopt;
    }
    return integer;
  }

  std::optional<llvm::StringRef>
  getString(std::initializer_list<llvm::StringRef> names) {
    const json::Value *value = find(names);
    if (!value)
      return std::nullopt;
    std::optional<llvm::StringRef> string = value->getAsString();
    if (!string)
      problem(*names.begin(), "is not a string");
    return string;
  }

  /// A boolean, which older files write as a string.
  bool getBoolean(std::initializer_list<llvm::StringRef> names) {
    const json::Value *value = find(names);
    if (!value)
      return false;
    if (std::optional<bool> boolean = value->getAsBoolean())
      return *boolean;
    std::optional<llvm::StringRef> string = value->getAsString();
    if (string && (string->equals_insensitive("true") ||
                   string->equals_insensitive("false")))
      return string->equals_insensitive("true");
    problem(*names.begin(), "is neither true nor false");
    return false;
  }

  /// Reads a number, or a list of numbers, of `field`.
  template <typename T, typename Read>
  void getNumbers(llvm::StringRef field, llvm::SmallVectorImpl<T> &numbers,
                  Read read) {
    const json::Value *value = object.get(field);
    if (!value)
      return;
    auto add = [&](const json::Value &element) {
      if (std::optional<T> number = read(element))
        numbers.push_back(*number);
      else
        problem(field, "has something that is not a number of its kind");
    };
    if (const json::Array *array = value->getAsArray())
      llvm::for_each(*array, add);
    else
      add(*value);
  }

  void problem(llvm::StringRef field, llvm::StringRef text) {
    if (message.empty())
      message = where + ": '" + field.str() + "' " + text.str();
  }

  /// A number without a fraction.
  static std::optional<int64_t> asInteger(const json::Value &value) {
    if (std::optional<int64_t> integer = value.getAsInteger())
      return integer;
    return std::nullopt;
  }

  static std::optional<double> asScale(const json::Value &value) {
    std::optional<double> number = value.getAsNumber();
    return number && std::isfinite(*number) && *number >= 0 ? number
                                                            : std::nullopt;
  }

  std::string message;

private:
  const json::Object &object;
  std::string where;
};
} // namespace

/// Reads one encoding object of either form into `encoding`, whose channels it
/// adds to.
static llvm::Error readEncoding(const json::Object &object,
                                const std::string &where, Encoding &encoding) {
  FieldReader reader(object, where);
  encoding.bitwidth =
      reader.getInteger({"bitwidth", "bw"}, /*isRequired=*/true, 1, 64)
          .value_or(0);
  llvm::StringRef dtype = reader.getString({"dtype"}).value_or("int");
  if (!dtype.equals_insensitive("int") && !dtype.equals_insensitive("float"))
    reader.problem("dtype", "is neither int nor float");
  encoding.isFloat = dtype.equals_insensitive("float");
  encoding.isSymmetric = reader.getBoolean({"is_symmetric", "is_sym"});
  encoding.axis = reader.getInteger({"axis"}, /*isRequired=*/false, -64, 64);
  encoding.blockSize =
      reader.getInteger({"block_size"}, /*isRequired=*/false, 0,
                        std::numeric_limits<int64_t>::max());
  if (encoding.blockSize == 0)
    encoding.blockSize = std::nullopt;
  size_t known = encoding.scales.size();
  reader.getNumbers("scale", encoding.scales, FieldReader::asScale);
  reader.getNumbers("offset", encoding.offsets, FieldReader::asInteger);
  if (!encoding.isFloat && encoding.scales.size() == known)
    reader.problem("scale", "is missing");
  if (!encoding.offsets.empty() &&
      encoding.offsets.size() != encoding.scales.size())
    reader.problem("offset", "has another length than 'scale'");
  llvm::StringRef type = reader.getString({"enc_type"}).value_or("");
  if (type == "PER_TENSOR" && encoding.scales.size() > 1)
    reader.problem("enc_type", "is PER_TENSOR, with several scales");
  if (reader.message.empty())
    return llvm::Error::success();
  return fail(reader.message);
}

/// Reads the tensors of a layer: `{"0": {..}, ...}`.
static llvm::Error readPorts(const json::Value &ports, Encoding::Port port,
                             const std::string &where, Encoding encoding,
                             llvm::SmallVectorImpl<Encoding> &encodings) {
  const json::Object *object = ports.getAsObject();
  if (!object)
    return fail(where, " is not an object");
  encoding.port = port;
  for (const auto &[number, value] : *object) {
    Encoding &read = encodings.emplace_back(encoding);
    const json::Object *fields = value.getAsObject();
    if (llvm::StringRef(number).getAsInteger(10, read.portNumber) || !fields)
      return fail(where, " maps '", llvm::StringRef(number),
                  "', where it should map numbers to encodings");
    if (llvm::Error error = readEncoding(
            *fields, where + " " + llvm::StringRef(number).str(), read))
      return error;
  }
  return llvm::Error::success();
}

static llvm::Error readSection(const json::Value &section, bool isParameter,
                               llvm::SmallVectorImpl<Encoding> &encodings) {
  llvm::StringRef sectionName =
      isParameter ? parameterSection : activationSection;
  llvm::StringSet<> names;
  auto start = [&](llvm::StringRef name) {
    Encoding encoding;
    encoding.name = name.str();
    encoding.isParameter = isParameter;
    return encoding;
  };
  if (const json::Array *list = section.getAsArray()) {
    for (const json::Value &value : *list) {
      const json::Object *fields = value.getAsObject();
      std::optional<llvm::StringRef> name =
          fields ? fields->getString("name") : std::nullopt;
      if (!name)
        return fail("'", sectionName, "' has an entry without a 'name'");
      if (!names.insert(*name).second)
        return fail("'", sectionName, "' has two entries named '", *name, "'");
      encodings.push_back(start(*name));
      if (llvm::Error error =
              readEncoding(*fields, "'" + name->str() + "'", encodings.back()))
        return error;
    }
    return llvm::Error::success();
  }
  const json::Object *entries = section.getAsObject();
  if (!entries)
    return fail("'", sectionName, "' is neither an object nor a list");
  // Objects are hashed; the order of entries is that of their names.
  std::map<std::string, const json::Value *> sorted;
  for (const auto &[key, value] : *entries)
    sorted[llvm::StringRef(key).str()] = &value;
  for (const auto &[name, entry] : sorted) {
    const json::Value &value = *entry;
    std::string where = "'" + name + "'";
    if (const json::Object *layer = value.getAsObject();
        layer && !isParameter) {
      for (auto [field, port] : {std::pair("input", Encoding::Port::Input),
                                 std::pair("output", Encoding::Port::Output)})
        if (const json::Value *ports = layer->get(field))
          if (llvm::Error error = readPorts(*ports, port, where + " " + field,
                                            start(name), encodings))
            return error;
      continue;
    }
    const json::Array *channels = value.getAsArray();
    if (!channels || channels->empty())
      return fail(where, " of '", sectionName,
                  "' is not a list of encodings, one per channel");
    Encoding encoding = start(name);
    for (const json::Value &channel : *channels) {
      const json::Object *fields = channel.getAsObject();
      if (!fields)
        return fail(where, " of '", sectionName,
                    "' has something that is not an encoding");
      if (llvm::Error error = readEncoding(*fields, where, encoding))
        return error;
    }
    encodings.push_back(std::move(encoding));
  }
  return llvm::Error::success();
}

llvm::Expected<EncodingDocument> EncodingDocument::parse(llvm::StringRef text) {
  if (isTooDeep(text))
    return fail("not a document of encodings: nested too deeply");
  llvm::Expected<json::Value> value = json::parse(text);
  if (!value)
    return fail("not JSON: ", llvm::toString(value.takeError()));
  EncodingDocument document;
  json::Object *root = value->getAsObject();
  if (!root)
    return fail("not a document of encodings: not an object");
  document.root = std::move(*root);
  bool hasSection = false;
  for (bool isParameter : {false, true}) {
    const json::Value *section =
        document.root.get(isParameter ? parameterSection : activationSection);
    if (!section)
      continue;
    hasSection = true;
    if (llvm::Error error =
            readSection(*section, isParameter, document.encodings))
      return error;
  }
  if (!hasSection)
    return fail("not a document of encodings: neither '", activationSection,
                "' nor '", parameterSection, "'");
  return document;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// The elements of `values` at `channels`, if it is a list of channels.
static void selectChannels(json::Value *values,
                           llvm::ArrayRef<int64_t> channels,
                           size_t numChannels) {
  json::Array *array = values ? values->getAsArray() : nullptr;
  if (!array || channels.empty() || array->size() != numChannels)
    return;
  json::Array selected;
  for (int64_t channel : channels)
    selected.push_back((*array)[channel]);
  *array = std::move(selected);
}

static void setAxes(json::Object &fields, const MovedEncoding &moved) {
  if (moved.axis)
    fields["axis"] = *moved.axis;
  if (moved.blockAxis)
    fields["block_axis"] = *moved.blockAxis;
}

void EncodingDocument::replaceParameter(llvm::StringRef name,
                                        llvm::ArrayRef<MovedEncoding> moved,
                                        bool keepsOriginal) {
  json::Value *section = root.get(parameterSection);
  if (!section || moved.empty())
    return;
  const auto *encoding = llvm::find_if(encodings, [&](const Encoding &entry) {
    return entry.isParameter && entry.name == name;
  });
  if (encoding == encodings.end())
    return;
  size_t numChannels = encoding->scales.size();
  auto getUnique = [](llvm::StringRef wanted,
                      llvm::function_ref<bool(llvm::StringRef)> isTaken) {
    // Symbols and keys of the program may be any bytes; text is UTF-8.
    std::string base = json::fixUTF8(wanted), result = base;
    for (unsigned number = 1; isTaken(result); ++number)
      result = base + "_" + std::to_string(number);
    return result;
  };

  if (json::Array *list = section->getAsArray()) {
    auto find = [&](llvm::StringRef wanted) {
      return llvm::find_if(*list, [&](const json::Value &value) {
        return value.getAsObject()->getString("name") == wanted;
      });
    };
    auto position = find(name);
    json::Object original = *position->getAsObject();
    if (!keepsOriginal)
      list->erase(position);
    for (const MovedEncoding &entry : moved) {
      json::Object fields = original;
      fields["name"] = getUnique(entry.name, [&](llvm::StringRef wanted) {
        return find(wanted) != list->end();
      });
      for (llvm::StringRef field : {"scale", "offset"})
        selectChannels(fields.get(field), entry.channels, numChannels);
      setAxes(fields, entry);
      list->push_back(std::move(fields));
    }
    return;
  }
  json::Object *entries = section->getAsObject();
  json::Value original = *entries->get(name);
  if (!keepsOriginal)
    entries->erase(json::ObjectKey(name.str()));
  for (const MovedEncoding &entry : moved) {
    json::Value channels = original;
    selectChannels(&channels, entry.channels, numChannels);
    for (json::Value &channel : *channels.getAsArray())
      setAxes(*channel.getAsObject(), entry);
    std::string unique = getUnique(entry.name, [&](llvm::StringRef wanted) {
      return entries->get(wanted) != nullptr;
    });
    (*entries)[unique] = std::move(channels);
  }
}

std::string EncodingDocument::print(unsigned indent) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  json::OStream stream(os, indent);
  stream.value(json::Value(json::Object(root)));
  return text;
}

} // namespace mlir::qtranspose
